r"""Answers in the style of MATH and GSM8K: `HONEST` are right, `NEAR` are wrong but look alike.

Made for this library. An entry is a question, its right answer, and answers to it. The honest ones
are forms that a right solver writes; the near ones are another number, another form than the one
that was asked, or work that is left.
"""

from __future__ import annotations

Answers = list[tuple[str, str, list[str]]]

HONEST: Answers = [
    # whole numbers
    (
        "How many clips did she sell?",
        "72",
        [
            "72",
            "72.",
            "72.0",
            "$72$",
            r"\boxed{72}",
            "x = 72",
            r"\text{72}",
            "(72)",
            r"72 \text{ clips}",
            "72 clips",
            r"48+24=72",
            r"\(72\)",
            "**72**",
        ],
    ),
    (
        "How many seats are there?",
        "1000",
        ["1,000", "1{,}000", r"1,\!000", r"1\,000", r"10^3", r"1\times 10^3"],
    ),
    ("What is $3-8$?", "-5", ["-5", "\u22125", "-5.0", "y=-5", r"\left(-5\right)", "$-5$"]),
    ("How much does she make a day?", "18", [r"\$18", "$18", "18 dollars", r"18\text{ dollars}"]),
    ("How much is the bill?", r"\$32.50", [r"\$32.50", "32.5", "$32.50", "32.50 dollars"]),
    ("How many people came?", "12345678", ["12,345,678", "12345678"]),
    # fractions, decimals, per cent
    (
        "What is the probability that both are red?",
        r"\frac{3}{4}",
        [
            r"\frac{3}{4}",
            "3/4",
            "0.75",
            ".75",
            r"\dfrac{3}{4}",
            r"\tfrac34",
            r"\frac34",
            r"75\%",
            "75%",
            "p=3/4",
            r"P = \frac{3}{4}",
            r"\boxed{\dfrac{3}{4}}",
            r"\left(\frac{3}{4}\right)",
            "{3}/{4}",
            r"\frac 3 4",
            r"3 / 4",
        ],
    ),
    (
        "What is the slope?",
        r"-\frac{1}{2}",
        ["-1/2", r"\frac{-1}{2}", r"\frac{1}{-2}", "-0.5", "m = -1/2"],
    ),
    ("What is $x$?", r"\frac{7}{4}", [r"1\frac{3}{4}", "1 3/4", "1.75", "7/4", r"1\frac34"]),
    ("Simplify $\\frac{143}{169}$.", r"\frac{11}{13}", ["11/13", r"\dfrac{11}{13}", "{11}/{13}"]),
    ("Write $0.75$ as a fraction.", r"\frac{3}{4}", ["3/4", r"\frac{3}{4}", r"\frac34"]),
    (r"Write $\frac38$ as a decimal.", "0.375", ["0.375", ".375", "0.3750"]),
    (r"What is $\frac13$ of one?", r"\frac{1}{3}", ["1/3", r"\frac{1}{3}"]),
    ("How far is it?", r"\frac{1}{3}", ["0.33333333", r"0.\overline{3}", r"0.\bar{3}"]),
    ("Which repeating decimal is it?", r"0.\overline{27}", [r"0.\overline{27}", r"\frac{3}{11}"]),
    ("How much of it is left?", r"50\%", ["50", "0.5", r"\frac12", "50%", r"50 \%", "50 percent"]),
    (r"What percent of $80$ is $60$?", "75", [r"75\%", "75%", "75", r"75\text{ percent}"]),
    ("Write $0.07$ as a percent.", r"7\%", ["7%", "7", r"7 \%"]),
    (r"Write $35\%$ as a decimal.", "0.35", ["0.35", ".35"]),
    ("Write $7/4$ as a mixed number.", r"1\frac{3}{4}", ["1 3/4", r"1\frac34", r"1\dfrac{3}{4}"]),
    (r"Write $2\frac13$ as an improper fraction.", r"\frac{7}{3}", ["7/3", r"\frac73"]),
    ("What is the ratio of boys to girls?", "3:2", ["3:2", "3 : 2", r"\frac{3}{2}", "3/2"]),
    # scientific notation, powers
    (
        "Write $0.00042$ in scientific notation.",
        r"4.2\times 10^{-4}",
        [
            r"4.2\times 10^{-4}",
            r"4.2\cdot 10^{-4}",
            r"4.2 \times 10^{-4}",
            "4.2*10^-4",
            "4.2 × 10^{-4}",
        ],
    ),
    ("How many atoms?", r"3\times 10^5", ["300000", r"3\cdot 10^5", "300,000", r"3.0\times10^{5}"]),
    ("How many words are there?", "2^{100}", ["2^{100}", "4^{50}", "2^100", "1024^{10}"]),
    ("How many are there?", "10^{12}", ["10^{12}", "1000000000000", "10^12", r"1\times10^{12}"]),
    ("Write $8^{20}$ as a power of $2$.", "2^{60}", ["2^{60}", "2^60", "{2}^{60}"]),
    ("Factor $72$.", r"2^3\cdot 3^2", [r"2^3\cdot 3^2", r"3^2\cdot 2^3", r"2^{3} \times 3^{2}"]),
    # roots
    (
        "How long is the diagonal?",
        r"2\sqrt{3}",
        [
            r"2\sqrt{3}",
            r"2\cdot\sqrt{3}",
            r"2 \sqrt 3",
            r"\sqrt{3}\cdot 2",
            r"2\sqrt3",
            r"2*\sqrt{3}",
            r"2\cdot 3^{1/2}",
            "2√3",
            "2sqrt(3)",
            r"d = 2\sqrt{3}",
        ],
    ),
    (r"Simplify $\sqrt{48}$.", r"4\sqrt{3}", [r"4\sqrt{3}", r"4 \cdot \sqrt{3}", r"4\sqrt3"]),
    (
        "What is the tangent?",
        r"\frac{\sqrt{3}}{3}",
        [r"\frac{1}{\sqrt{3}}", r"\sqrt{3}/3", r"\frac13\sqrt{3}"],
    ),
    (
        "What is the sine?",
        r"\frac{\sqrt{3}}{2}",
        [r"\sqrt{3}/2", r"\frac{1}{2}\sqrt{3}", r"0.5\sqrt{3}"],
    ),
    (
        r"Rationalise $\frac{6}{\sqrt{2}}$.",
        r"3\sqrt{2}",
        [r"3\sqrt{2}", r"3\sqrt2", r"\sqrt{2}\cdot 3"],
    ),
    ("What is the larger root?", r"3+2\sqrt{2}", [r"2\sqrt{2}+3", r"3+2\sqrt2", r"x=3+2\sqrt{2}"]),
    (
        "What is the golden ratio?",
        r"\frac{1+\sqrt{5}}{2}",
        [
            r"\frac{\sqrt{5}+1}{2}",
            r"\frac12+\frac{\sqrt5}{2}",
            r"(1+\sqrt 5)/2",
            r"\frac12(1+\sqrt5)",
        ],
    ),
    ("How far is it around?", r"12+12\sqrt{2}", [r"12(1+\sqrt{2})", r"12\sqrt2+12"]),
    (r"Simplify $\sqrt[3]{54}$.", r"3\sqrt[3]{2}", [r"3\sqrt[3]{2}", r"3 \cdot \sqrt[3]2"]),
    # polynomials and fractions of them
    (
        "Expand $(x+1)^2$.",
        "x^2+2x+1",
        ["1+2x+x^2", r"x^{2}+2\cdot x+1", "x^2 + 2x + 1", "x^2+1+2x", "$x^2+2x+1$", "x² + 2x + 1"],
    ),
    ("Write the area as a polynomial.", "x^2+2x+1", ["y=x^2+2x+1", "A = x^2+2x+1", "1+x^2+2x"]),
    (
        "Factor $x^2+3x+2$.",
        "(x+1)(x+2)",
        ["(x+2)(x+1)", r"(x+1)\cdot(x+2)", "(2+x)(1+x)", r"\left(x+2\right)\left(x+1\right)"],
    ),
    ("Factor $x^2-25$.", "(x-5)(x+5)", ["(x+5)(x-5)", "(x - 5)(x + 5)", "(5+x)(x-5)"]),
    ("Factor $xy+xz$.", "x(y+z)", ["x(z+y)", "(y+z)x", r"x\cdot(y+z)"]),
    ("Factor $x^2+2x+1$.", "(x+1)^2", ["(1+x)^2", "(x+1)(x+1)", "(x+1)^{2}"]),
    ("Factor $6x^2y-9xy^2$.", "3xy(2x-3y)", ["3xy(2x-3y)", "3yx(2x-3y)", r"3x\cdot y(2x-3y)"]),
    ("Simplify $3x+2(x-4)$.", "5x-8", ["-8+5x", "5x - 8", r"5\cdot x-8"]),
    ("How long is a half?", r"\frac{x}{2}", ["x/2", r"\frac{1}{2}x", "0.5x", r"\frac12 x"]),
    (
        "What is the mean?",
        r"\frac{2x+1}{3}",
        ["(2x+1)/3", r"\frac{2}{3}x+\frac13", r"\frac{1+2x}{3}"],
    ),
    (r"Simplify $\frac{x^2-9}{x-3}$.", "x+3", ["x+3", "3+x"]),
    ("What is the rate?", r"\frac{1}{x^2}", ["1/x^2", "x^{-2}", r"\dfrac{1}{x^{2}}"]),
    (
        "How many handshakes?",
        r"\frac{n(n-1)}{2}",
        ["n(n-1)/2", r"\frac{1}{2}n(n-1)", r"\frac{(n-1)n}{2}"],
    ),
    ("What is the quotient?", r"\frac{x+1}{x-2}", ["(x+1)/(x-2)", r"\dfrac{1+x}{x-2}"]),
    # equations
    (
        "Which line is it?",
        "y = 2x+5",
        ["y=2x+5", "2x+5", "y = 5+2x", "2x-y+5=0", "y-2x=5", "f(x)=2x+5"],
    ),
    ("Which circle is it?", "x^2+y^2=25", ["y^2+x^2=25", "x^2+y^2-25=0", "25=x^2+y^2"]),
    ("Solve $2x+6=10$.", "2", ["x=2", "x = 2", "2=x"]),
    ("Solve $2x+6=10$.", "x=2", ["2", "x = 2", "x=2.0"]),
    # intervals, inequalities
    (
        "Solve $|x|<5$.",
        "(-5,5)",
        ["(-5, 5)", r"\left(-5,5\right)", r"x\in(-5,5)", "(-5.0,5)", "-5<x<5", "5>x>-5"],
    ),
    (
        "For which $x$ does it hold?",
        r"(-\infty,3)",
        ["x<3", r"(-\infty, 3)", "x < 3", "3>x", "(-∞,3)", r"x \in (-\infty, 3)"],
    ),
    ("For which $x$ does it hold?", "x<3", [r"(-\infty,3)", "3>x", r"x\in(-\infty,3)"]),
    (
        "What is the domain?",
        r"[0,\infty)",
        [r"[0, \infty)", r"x\ge 0", r"x\geq 0", "x ≥ 0", r"0\le x", r"[0,+\infty)", "x>=0"],
    ),
    (
        "Solve it.",
        r"(-\infty,-2)\cup(4,\infty)",
        [
            r"(-\infty, -2) \cup (4, \infty)",
            r"x \in (-\infty,-2)\cup(4,\infty)",
            r"(4,\infty)\cup(-\infty,-2)",
            r"x<-2 \text{ or } x>4",
            "x < -2 or x > 4",
        ],
    ),
    ("What is the range?", "[1,4]", [r"1\le y\le 4", r"1 \leq x \leq 4", r"y\in[1,4]", "1<=y<=4"]),
    (r"What is allowed?", r"x\ge 3", [r"x\geq 3", r"3 \le x", "x ≥ 3", r"[3,\infty)"]),
    # sets, lists, tuples
    (
        "Find all roots.",
        "1, -2",
        [
            "-2, 1",
            "x=1, x=-2",
            r"1 \text{ or } -2",
            r"x=1 \text{ or } x=-2",
            r"\{1,-2\}",
            "1 and -2",
            r"\left\{-2, 1\right\}",
            "x = -2 or x = 1",
            "{1, -2}",
            r"x \in \{1, -2\}",
            r"x_1=1, x_2=-2",
        ],
    ),
    (
        "Which set is it?",
        r"\{2, 8, 9\}",
        ["2, 8, 9", r"\{9, 2, 8\}", "9, 8, 2", r"2, 8 \text{ and } 9"],
    ),
    (
        "Which primes?",
        "3,5,7",
        ["3, 5, and 7", r"3, 5, \text{ and } 7", "7, 5, or 3", r"\{3,5,7\}"],
    ),
    (
        "Where do they meet?",
        "(4,-3)",
        ["(4, -3)", r"\left(4, -3\right)", "(4.0, -3)", "( 4 , -3 )", "(x,y)=(4,-3)"],
    ),
    (
        "Convert to polar.",
        r"(3, \frac{\pi}{2})",
        [r"(3, \pi/2)", r"\left( 3, \frac{\pi}{2} \right)", r"(3,\frac12\pi)"],
    ),
    ("Which values?", r"\pm 2", ["2, -2", "-2, 2", r"x=\pm 2", r"\{-2,2\}", "±2"]),
    (
        "Which values?",
        r"3 \pm \sqrt{2}",
        [r"3+\sqrt{2}, 3-\sqrt{2}", r"3\pm\sqrt2", r"x = 3-\sqrt{2}, 3+\sqrt{2}"],
    ),
    ("Which values?", "2, -2", [r"\pm 2", r"x=\pm2"]),
    ("How many solutions?", r"\emptyset", [r"\emptyset", r"\varnothing", "∅", r"\{\}"]),
    # matrices, vectors
    (
        "Find the vector.",
        r"\begin{pmatrix}2\\6\end{pmatrix}",
        [
            r"\begin{pmatrix} 2 \\ 6 \end{pmatrix}",
            r"\begin{bmatrix}2\\6\end{bmatrix}",
            r"\begin{pmatrix}2.0\\6\end{pmatrix}",
        ],
    ),
    (
        "Find the inverse.",
        r"\begin{pmatrix} 1/2 & 0 \\ 0 & -1 \end{pmatrix}",
        [
            r"\begin{pmatrix} \frac12 & 0 \\ 0 & -1 \end{pmatrix}",
            r"\begin{bmatrix} 0.5 & 0 \\ 0 & -1 \end{bmatrix}",
        ],
    ),
    # bases
    ("Write $5$ in base $2$.", "101_2", ["101_2", "101_{2}", r"(101)_2", r"101_{\text{2}}"]),
    ("What is the sum in base $8$?", "1057_8", ["1057_8", "1057_{8}"]),
    ("Write $300$ in base $16$.", "12C_{16}", ["12C_{16}", r"12\text{C}_{16}"]),
    ("What is $101_2$ in base ten?", "5", ["5", "5_{10}"]),
    # units, angles, money
    (
        "How long is it?",
        "12",
        [
            "12 cm",
            r"12\text{ cm}",
            r"12 \text{ cm}^2",
            r"12\,\text{cm}",
            "12 inches",
            r"12\text{ square units}",
        ],
    ),
    (
        "How long is it?",
        r"12\text{ cm}",
        ["12", "12 cm", r"12\,\mathrm{cm}", "12 centimeters", r"12~\text{cm}", "12.0 cm", "12cm"],
    ),
    (
        "How large is it?",
        r"12\text{ cm}^2",
        ["12", "12 cm^2", r"12\text{ cm}^{2}", "12 square centimeters", "12 cm²"],
    ),
    (
        "How fast is it?",
        r"20\text{ mph}",
        ["20 mph", "20", "20 miles per hour", r"20\text{ miles per hour}"],
    ),
    ("How large is the angle?", "90", [r"90^\circ", r"90^{\circ}", r"90 \text{ degrees}", "90°"]),
    ("How large is the angle?", r"90^\circ", ["90", r"90^{\circ}", "90 degrees", "90°"]),
    ("How much is it?", r"5\text{ dollars}", [r"\$5", "5", "$5", r"\$5.00"]),
    # complex numbers, pi, infinity, e, functions
    ("Compute $(2+3i)(1-i)$.", "5+i", ["i+5", "5 + i", "z=5+i"]),
    ("What is the other root?", "6-5i", ["-5i+6", "6 - 5i", r"6-5\cdot i"]),
    (
        "What is the root?",
        r"\frac{1+i\sqrt{3}}{2}",
        [r"\frac12+\frac{\sqrt{3}}{2}i", r"\frac{1+\sqrt{3}i}{2}", r"(1+i\sqrt3)/2"],
    ),
    (
        "What is the area?",
        r"25\pi",
        [r"\pi \cdot 25", r"25 \cdot \pi", "25π", r"25\,\pi", "25 pi", r"25\pi \text{ cm}^2"],
    ),
    ("What is the angle?", r"\frac{\pi}{6}", [r"\pi/6", r"\frac{1}{6}\pi"]),
    ("What is the volume?", r"\frac{32\pi}{3}", [r"\frac{32}{3}\pi", r"32\pi/3"]),
    ("What is the limit?", r"\infty", ["∞", r"+\infty"]),
    ("What is the limit?", "e^2", ["e^{2}", r"\exp(2)", r"\mathrm{e}^2"]),
    (
        "Solve $2^x=3$.",
        r"\log_2 3",
        [r"\log_{2} 3", r"\frac{\ln 3}{\ln 2}", r"\log_2(3)", r"x=\log_2 3"],
    ),
    ("What is the derivative?", r"\cos x", [r"\cos(x)", r"\cos{x}", r"f'(x)=\cos x"]),
    ("What is it?", r"2\sin x \cos x", [r"2\cos x\sin x", r"2\sin(x)\cos(x)"]),
    ("What is it?", r"\sin^2 x", [r"(\sin x)^2", r"\sin^{2}(x)"]),
    ("What is $\\sqrt{x^2}$?", "|x|", [r"\lvert x \rvert", r"\left|x\right|", "|x|"]),
    ("How many ways?", r"\binom{n}{2}", [r"\binom{n}{2}", r"\dbinom{n}{2}"]),
    ("How many ways?", "n!", ["n!", "n !"]),
    # texts and choices
    ("Which one?", r"\text{(B)}", ["(B)", "B", r"\textbf{(B)}", r"\text{B}", "(b)"]),
    ("Who ran farthest?", r"\text{Evelyn}", ["Evelyn", "evelyn", r"\text{Evelyn}"]),
    ("Is it even?", r"\text{Yes}", ["yes", "Yes", "Yes."]),
    ("Which day is it?", "Monday", ["Monday", r"\text{Monday}", "monday"]),
    ("At what time?", "3:30", ["3:30"]),
    ("What kind of curve?", r"\text{parabola}", ["parabola", "Parabola"]),
    ("Is it true?", "undefined", [r"\text{undefined}", "undefined"]),
    # what is known by its name
    ("What is $f(x)$?", "3x", ["f(x)=3x", "3x", "3 x", r"3\cdot x"]),
    ("What is $x_1$?", "a_1+b_1", ["a_1+b_1", "b_1+a_1", "a_{1}+b_{1}"]),
]
r"""(a question, its right answer, other forms of it that are right)"""

NEAR: Answers = [
    (
        "How many are there?",
        "72",
        ["73", "-72", "7.2", "72x", "70+2", r"\frac{144}{2}", "72, 73", r"72\%", "72_8", "72i"],
    ),
    (
        "How many seats are there?",
        "1000",
        ["1,00", "1.000", "100", "10^2", "1,0000", r"10\times 10^2"],
    ),
    (
        "What is the slope?",
        r"-\frac{1}{2}",
        [r"\frac{1}{2}", "-2", "--1/2", r"\frac{-1}{-2}", r"-\frac{2}{4}"],
    ),
    (
        "What is $x$?",
        r"\frac{7}{4}",
        [r"1\cdot\frac{3}{4}", "1+3/4", "1 4/3", r"\frac{14}{8}", "1.7", "1.749999"],
    ),
    (
        "What is it?",
        r"\frac{1}{3}",
        ["0.3", "0.33", "0.333", "0.3333333333334", "33", r"33\%", r"0.\overline{34}"],
    ),
    ("What is it?", "3/2", ["1 1/3", "2/3", "3/4", "1 1 1/2"]),
    # tiny and close numbers
    (
        "What is it?",
        r"\frac{1}{2^{99}}",
        [r"\frac{1}{2^{98}}", "0", r"\frac{1}{3^{99}}", "2^{-98}", r"10^{-30}"],
    ),
    ("What is it?", "2^{-60}", ["2^{-59}", "0", "2^{-61}", r"-2^{-60}"]),
    ("What is it?", "1-2^{-60}", ["1-2^{-61}", "1", "1-2^{-59}"]),
    ("What is it?", "0.000000001", ["0", "0.000000002", "10^{-8}", "0.00000000"]),
    ("What is it?", "1000000", ["1000001", "999999", "10^7", "10^5", "1000000.000001"]),
    ("What is it?", r"\sqrt{2}+10^{-12}", [r"\sqrt{2}", r"\sqrt{2}+10^{-13}"]),
    ("What is it?", "2^{100}", ["2^{101}", "2^{99}+2^{99}", "4^{49}", r"2\cdot 2^{99}", "100^2"]),
    ("What is it?", r"25\pi", ["25", r"5\pi", "78.54", r"25\pi^2", r"25\pi+10^{-9}"]),
    # roots
    (
        "Simplify it.",
        r"2\sqrt{3}",
        [
            r"\sqrt{12}",
            r"\sqrt{4\cdot3}",
            r"\sqrt{4}\sqrt{3}",
            r"2\sqrt{2}",
            r"\sqrt[4]{144}",
            "3.4641",
            "12^{1/2}",
            r"\sqrt{2}\sqrt{6}",
        ],
    ),
    (
        "Simplify it.",
        r"\sqrt{n}",
        [
            r"\sqrt[4]{n^2}",
            r"\sqrt[6]{n^3}",
            r"(n^2)^{1/4}",
            r"\frac{n}{\sqrt{n}}",
            r"\sqrt{n^2}",
            r"\sqrt{\sqrt{n^2}}",
        ],
    ),
    # shape
    (
        "Factor $4x^2+x-5$.",
        "(4x+5)(x-1)",
        ["x(4x+1)-5", "4x^2+x-5", "x+4x^2-5", "(4x+5)(x+1)", "4x^2-4x+5x-5", "4x(x-1)+5(x-1)"],
    ),
    ("Factor it.", "(x-5)(x+5)", ["(x-1)(x+1)-24", "x^2-25", "x^2-5^2", "(x-5)(x+6)", "(x-5)^2"]),
    (
        "Expand it.",
        "x^2-8x+12",
        ["x(x-2)-6(x-2)", "(x-2)(x-6)", "x^2-2x-6x+12", "(x-4)^2-4", "x(x-8)+12", "(x-6)x-2(x-6)"],
    ),
    ("Expand it.", "2x+2", ["2(x+1)", "x+x+2", "2x+1+1"]),
    ("Factor it.", "4(x+2)", ["4x+8", "2(2x+4)", "4(x+1)+4", "(x+2)+3(x+2)"]),
    (
        "Simplify it.",
        "x+3",
        [
            r"\frac{x^2-9}{x-3}",
            r"\frac{x^2+3x}{x}",
            r"\frac{2x+6}{2}",
            "x+1+2",
            "x-3",
            "(x+3)^1",
            "x+3+0",
        ],
    ),
    (
        "What is the sum?",
        r"\frac{3}{4}",
        [r"\frac{2}{4}+\frac{1}{4}", r"\frac{2+1}{4}", r"\frac{6}{8}", "0.5+0.25"],
    ),
    # the form that was asked
    (
        "Write $0.75$ as a fraction.",
        r"\frac{3}{4}",
        ["0.75", r"75\%", "75/100", r"\frac{0.75}{1}", r"7.5\times 10^{-1}", r"\frac{6}{8}"],
    ),
    (
        r"Write $35\%$ as a fraction.",
        r"\frac{7}{20}",
        [r"35\%", "0.35", r"\frac{35}{100}", r"3.5\times10^{-1}"],
    ),
    (r"Write $35\%$ as a decimal.", "0.35", [r"35\%", r"\frac{7}{20}", "35"]),
    (
        "Write $0.00042$ in scientific notation.",
        r"4.2\times 10^{-4}",
        ["0.00042", r"0.042\%", r"42\times 10^{-5}", r"\frac{42}{100000}", r"0.42\times 10^{-3}"],
    ),
    (
        r"Write $\frac38$ as a decimal.",
        "0.375",
        [r"\frac{3}{8}", r"37.5\%", "3/8", r"3.75\times 10^{-1}"],
    ),
    ("Write $7/4$ as a mixed number.", r"1\frac{3}{4}", ["7/4", "1.75", r"\frac74"]),
    (r"Write $2\frac13$ as an improper fraction.", r"\frac{7}{3}", [r"2\frac13", "2 1/3"]),
    (
        r"Rationalise $\frac{1}{\sqrt{3}}$.",
        r"\frac{\sqrt{3}}{3}",
        [r"\frac{1}{\sqrt{3}}", r"1/\sqrt3", r"\sqrt{1/3}", "3^{-1/2}", r"\frac{3}{3\sqrt{3}}"],
    ),
    (
        "Write $x^{-2}$ with a positive exponent.",
        r"\frac{1}{x^2}",
        ["x^{-2}", "(x^2)^{-1}", r"\frac{1}{x}\cdot\frac{1}{x}"],
    ),
    ("Write $x<3$ as an interval.", r"(-\infty,3)", ["x<3", "3>x", r"(-\infty,3]"]),
    (r"Simplify $\frac{a}{b/c}$.", r"\frac{ac}{b}", [r"\frac{a}{b/c}", r"a/\frac{b}{c}"]),
    ("Simplify $-(x-3)$.", "3-x", ["-(x-3)", "-1(x-3)", "0-(x-3)"]),
    ("What is $5\\%$ of $100$?", "5", [r"5\%", "5%"]),
    ("Solve $2x+6=10$.", "x=2", ["2x+6=10", "2x=4", "x-2=0", "x+3=5", "x=3"]),
    ("Solve $2x<6$.", "x<3", ["2x<6", "x-3<0", "x>3", r"x\le 3"]),
    (
        "Write $y-3=2(x+1)$ as $y=mx+b$.",
        "y=2x+5",
        ["y-3=2(x+1)", "y-3=2x+2", "y=2(x+1)+3", "y-2x=5", "2x-y+5=0"],
    ),
    # intervals, lists, tuples
    (
        "Solve it.",
        r"(-\infty,3)",
        [r"x\le 3", "x>3", r"(-\infty,3]", r"(3,\infty)", "x<4", "(-3,3)", "3"],
    ),
    ("Solve it.", "x<3", ["y<3", "x>3", "3<x", r"(-\infty,3]", "x=3"]),
    ("Where is it?", "(4,-3)", ["(-3,4)", "4,-3", "[4,-3]", "(4,-3,0)", "(4,3)", "4<x<-3"]),
    ("Find all roots.", "1, -2", ["1", "-2", "1, 2", "1, -2, 3", "1, 1, -2", "(1,-2)", r"\pm 1"]),
    ("Which set is it?", r"\{2,8,9\}", ["2, 8", "[2,8,9]", r"\{2,8,9,9\}"]),
    ("Which values?", r"3\pm\sqrt{2}", [r"3+\sqrt{2}", r"\pm 3+\sqrt{2}", r"-3\pm\sqrt2"]),
    (
        "Which matrix?",
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        [
            r"\begin{pmatrix}1&3\\2&4\end{pmatrix}",
            "1,2,3,4",
            r"\begin{pmatrix}1&2&3&4\end{pmatrix}",
            r"\begin{vmatrix}1&2\\3&4\end{vmatrix}",
        ],
    ),
    # bases, units
    ("Which number is it?", "10_{8}", ["10_{2}", "8", "10_{10}", "10_{16}"]),
    ("Write $5$ in base $2$.", "101_2", ["5", "5_{10}", "101_3", "101_{10}", "12_3"]),
    ("Write $101_2$ in base $10$.", "5", ["101_2", "101", "12_3"]),
    (
        "How fast is it?",
        r"20\text{ mph}",
        ["20 kph", r"20\text{ km/h}", "20 m", "40 mph", "20 miles"],
    ),
    (
        "How long is it?",
        r"12\text{ cm}",
        ["12 m", r"12\text{ mm}", r"12\text{ cm}^2", "0.12 cm", r"\$12", "12 cm^3", "12 degrees"],
    ),
    ("How much is it?", r"\$5", ["5 cents", r"5\text{ euros}", "500"]),
    ("How large is it?", r"12\text{ cm}^2", ["12 cm", r"12\text{ cm}^3", "12 m^2"]),
    ("How large is it?", r"90^\circ", [r"90\text{ cm}", r"\frac{\pi}{2}", "90 radians"]),
    # functions, names, texts
    (
        "What is it?",
        r"\sin x",
        [r"\cos x", r"\sin y", r"\sin 2x", "x", r"\sin", r"\frac{\sin x}{1}"],
    ),
    ("Who was it?", r"\text{Evelyn}", ["Eve", "nylevE", "E", r"\text{Evelyn and Carla}"]),
    ("Which one?", r"\text{(B)}", ["A", "(A)", "A or B", "A, B", "AB"]),
    ("What is it?", "|x|", ["x", "-x", "|y|", r"\sqrt{x^2}", "|-x|", "||x||"]),
    ("What is it?", "x+y", ["x-y", "xy", "x+z"]),
    ("What is it?", "6-5i", ["6+5i", "6-5", "6-5j", "5-6i"]),
    ("What is it?", r"\log_2 3", [r"\log_3 2", r"\log 3", r"\frac{\ln 2}{\ln 3}", r"\ln 3"]),
]
r"""(a question, its right answer, wrong answers that are near to it)"""
