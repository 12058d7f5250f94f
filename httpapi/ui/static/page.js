"use strict";
// The pages are whole without this. It makes them live: it asks for the page again when the
// node tells of a change, and puts what differs in place. Where the API wants a token it is
// kept for the tab, and shown with every request; no cookie would be kept from the servers
// of tasks, which are other ports of the same host.

const tokenKey = "wasmnode-token";
const patience = 2000; // ms until a stream that ended is asked for again
const together = 200; // ms for which changes are awaited that come together
const mostLog = 1 << 20; // characters of a log that are kept
const main = document.getElementById("content");
const html = window.trustedTypes ? trustedTypes.createPolicy("page", {createHTML: (text) => text}) : {createHTML: (text) => text};

const say = (text) => { document.getElementById("live").textContent = text; };
const failed = (error) => { if (error.name !== "AbortError") say("The node does not answer"); };
const later = (ms) => new Promise((done) => setTimeout(done, ms));

// A page that is left is kept by the browser with all that it asks for, for a minute: six of
// them take all the connections that it has for a host.
let left = new AbortController();
addEventListener("pagehide", () => left.abort());
addEventListener("pageshow", () => {
  if (!left.signal.aborted) return;
  left = new AbortController();
  refreshSoon();
});

function ask(url) {
  const token = sessionStorage.getItem(tokenKey);
  return fetch(url, {headers: token ? {"X-Nomad-Token": token} : {}, cache: "no-store", signal: left.signal});
}

// morph makes an element equal to another, and leaves alone what is equal: what has the
// focus, is selected or scrolled stays so.
function morph(old, now) {
  if (old.hasAttribute("data-keep") && now.hasAttribute("data-keep")) return;
  for (const {name} of [...old.attributes]) {
    if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const {name, value} of now.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const olds = [...old.childNodes];
  const nows = [...now.childNodes];
  nows.forEach((child, i) => {
    const before = olds[i];
    if (!before) old.append(child);
    else if (before.nodeType !== child.nodeType || before.nodeName !== child.nodeName) before.replaceWith(child);
    else if (child.nodeType === Node.ELEMENT_NODE) morph(before, child);
    else if (before.data !== child.data) before.data = child.data;
  });
  olds.slice(nows.length).forEach((child) => child.remove());
}

// refresh shows the page as it is now.
async function refresh() {
  try {
    const answer = await ask(location.href);
    const page = new DOMParser().parseFromString(html.createHTML(await answer.text()), "text/html");
    morph(main, page.getElementById("content"));
    morph(document.querySelector("header nav"), page.querySelector("header nav"));
    document.title = page.title;
    return true;
  } catch (error) {
    failed(error);
    return false;
  }
}

let waiting = false;
async function refreshSoon() {
  if (waiting || main.dataset.still || document.hidden) return;
  waiting = true;
  await later(together);
  waiting = false;
  if (!main.dataset.still) await refresh();
}

// read calls each with the text of a stream, as it comes.
async function read(answer, each) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    each(value);
  }
}

// pause ends early, and is true then, where somebody signs in.
let wake = () => {};
const pause = (ms) => new Promise((done) => {
  wake = () => done(true);
  setTimeout(done, ms, false);
});

// watch has the page refreshed with what changes. The index is above all that there are: what
// was before is on the page.
async function watch() {
  for (;;) {
    try {
      const answer = await ask("/v1/event/stream?namespace=*&index=" + Number.MAX_SAFE_INTEGER);
      if (answer.ok) {
        say("Live");
        refreshSoon(); // of what changed since the page was made
        let rest = "";
        await read(answer, (text) => {
          const lines = (rest + text).split("\n");
          rest = lines.pop();
          if (lines.some((line) => line.trim() && line.trim() !== "{}")) refreshSoon();
        });
      } else { // a token may be good for the page, and not for all that happens
        say(main.dataset.still ? "" : "Looked at every few seconds");
        let signedIn = false;
        for (let n = 0; n < 15 && !signedIn; n++) {
          signedIn = await pause(patience);
          refreshSoon();
        }
        if (signedIn) continue;
      }
    } catch (error) {
      failed(error);
    }
    await later(patience);
  }
}

// figures refreshes what has no events, for as long as somebody looks.
async function figures() {
  for (;;) {
    await later(Number(main.dataset.poll) || patience);
    if (main.dataset.poll) await refreshSoon();
  }
}

// follow goes on with the log of the page.
async function follow() {
  const log = document.getElementById("log");
  if (!log || log.dataset.followed) return;
  log.dataset.followed = "true";
  log.scrollTop = log.scrollHeight;
  for (;;) {
    try {
      const answer = await ask(log.dataset.follow);
      if (!answer.ok) return;
      let first = true;
      await read(answer, (text) => {
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
        if (first) log.textContent = ""; // it begins with what is on the page
        first = false;
        log.append(text);
        while (log.textContent.length > mostLog && log.childNodes.length > 1) log.firstChild.remove();
        if (atEnd) log.scrollTop = log.scrollHeight;
      });
    } catch { /* it is asked for again */ }
    await later(patience);
  }
}

// execute makes the terminal of the page.
async function execute() {
  const place = document.getElementById("terminal");
  if (!place || place.dataset.made) return;
  place.dataset.made = "true";
  try {
    const {start} = await import("/ui/static/terminal.js");
    await start(() => sessionStorage.getItem(tokenKey) ?? "");
  } catch {
    say("The terminal could not be loaded: load the page again");
  }
}

// start is for a page that is shown for the first time.
function start() {
  document.getElementById("sign-out").hidden = !sessionStorage.getItem(tokenKey);
  follow();
  execute();
  wake();
}

document.addEventListener("submit", async (event) => {
  if (event.target.id !== "sign-in") return;
  event.preventDefault();
  const input = document.getElementById("token");
  sessionStorage.setItem(tokenKey, input.value.trim());
  input.value = "";
  if (await refresh() && !document.getElementById("sign-in")) main.focus();
  start();
});

document.getElementById("sign-out").addEventListener("click", () => {
  sessionStorage.removeItem(tokenKey);
  location.reload();
});

// A link to the API would be followed without the token: its answer is shown here.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a[data-api]");
  if (!link || !sessionStorage.getItem(tokenKey) || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  main.dataset.still = "true";
  const [title, text, back, again] = ["h1", "pre", "p", "a"].map((name) => document.createElement(name));
  title.textContent = link.textContent;
  text.tabIndex = 0;
  text.textContent = await ask(link.href).then((answer) => answer.text(), String);
  [again.href, again.textContent] = [location.href, "Back to the page"];
  back.append(again);
  main.replaceChildren(title, back, text);
  main.focus();
});

document.addEventListener("visibilitychange", refreshSoon);

(async () => {
  if (sessionStorage.getItem(tokenKey)) await refresh();
  start();
  watch();
  figures();
})();
