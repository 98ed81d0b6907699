// Fetches the part of a page that changes by itself; what was unfolded stays unfolded.
"use strict";

const part = document.getElementById("part");
const SECONDS = 2;

function unfolded() {
  return [...part.querySelectorAll("details")].map((box) => box.open);
}

async function renew() {
  const answer = await fetch(part.dataset.source, { cache: "no-store" });
  if (!answer.ok) {
    location.reload(); // says why: it was left, or the program has no room
    part.dataset.source = "";
    return;
  }
  const text = await answer.text();
  if (text !== part.dataset.last) {
    const open = unfolded();
    const focused = document.activeElement && document.activeElement.id;
    part.innerHTML = text;
    part.dataset.last = text;
    part.querySelectorAll("details").forEach((box, place) => {
      if (place < open.length) box.open = open[place];
    });
    const first = part.querySelector("[autofocus]") || document.getElementById(focused);
    if (first) first.focus();
  }
  if (answer.headers.get("X-Working") !== "1") part.dataset.source = "";
}

async function watch() {
  while (part && part.dataset.source) {
    await new Promise((done) => setTimeout(done, SECONDS * 1000));
    try {
      await renew();
    } catch (error) {
      console.info("the page could not be renewed", error);
    }
  }
}

// Ctrl-Enter sends the text that is being written.
document.addEventListener("keydown", (event) => {
  const form = event.target.form;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && form) form.requestSubmit();
});

watch();
