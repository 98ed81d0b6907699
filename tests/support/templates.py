"""Chat templates that count turns and that forget thinking."""

from __future__ import annotations

FORGETFUL = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{{ m['content'].split('</think>')[-1] if not loop.last else m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

COUNTING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}{{ loop.index0 // 2 }}\n"
    "{{ m['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
