// Keys and double clicks. Every page works without this file.
"use strict";
document.addEventListener("keydown", event => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const search = document.getElementById("search");
    if (search) { event.preventDefault(); search.focus(); search.select(); }
  }
  if (event.key === "Escape" && typing) document.activeElement.blur();
});
// A form that was sent is not sent again while its answer is on the way; the service would do it once all the same.
document.addEventListener("submit", event => {
  const button = event.submitter || event.target.querySelector("button[type=submit]");
  if (button) setTimeout(() => { button.disabled = true; button.setAttribute("aria-busy", "true"); }, 0);
});
// Back from another page: the form can be used again.
addEventListener("pageshow", () => document.querySelectorAll("button[aria-busy]").forEach(button => {
  button.disabled = false; button.removeAttribute("aria-busy");
}));
