// The terminal of a task: xterm.js shows what a command writes and takes what is typed, and a
// websocket of the API carries both. page.js loads this where a page has a terminal.

import {Terminal} from "./xterm/xterm.mjs";
import {FitAddon} from "./xterm-fit/addon-fit.mjs";

const mostWaiting = 4 << 20; // bytes of output that wait to be shown; what is above is left out
const lines = 5000; // that are kept above the screen

// The page's policy allows no style but that of its files. xterm.js writes its own as elements and
// attributes: both become what a script may set by the object model.
async function styledByScript() {
  const own = new CSSStyleSheet();
  await own.replace(await fetch("/ui/static/xterm/xterm.css").then((answer) => answer.text()));
  document.adoptedStyleSheets.push(own);
  const make = document.createElement;
  document.createElement = (name, options) => {
    if (name !== "style") return make.call(document, name, options);
    const sheet = new CSSStyleSheet();
    const stand = make.call(document, "span");
    stand.hidden = true;
    Object.defineProperty(stand, "textContent", {set: (text) => sheet.replaceSync(text)});
    document.adoptedStyleSheets.push(sheet);
    return stand;
  };
  const set = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function (name, value) {
    if (name === "style") this.style.cssText = value;
    else set.call(this, name, value);
  };
}

// words are those of a command line, or the list of JSON that it is.
function words(text) {
  if (!text.trim().startsWith("[")) return text.split(" ").filter((word) => word);
  const list = JSON.parse(text);
  if (!list.length || !list.every((word) => typeof word === "string")) throw new Error("it is no list of texts");
  return list;
}

const encoded = (bytes) => {
  let text = "";
  for (const b of bytes) text += String.fromCharCode(b);
  return btoa(text);
};
const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

// session runs a command until it ends, or either side does.
class Session {
  constructor(terminal, url, token, told) {
    Object.assign(this, {terminal, told, waiting: 0, left: 0, result: ""});
    this.socket = new WebSocket(url);
    this.socket.onopen = () => {
      this.send({version: 1, auth_token: token});
      this.resize();
      told("Connected");
      terminal.focus();
    };
    this.socket.onmessage = (event) => this.take(JSON.parse(event.data));
    this.ended = new Promise((done) => { this.socket.onclose = (event) => done(this.close(event)); });
    this.typing = [
      terminal.onData((text) => this.input(new TextEncoder().encode(text))),
      terminal.onBinary((text) => this.input(Uint8Array.from(text, (c) => c.charCodeAt(0)))),
      terminal.onResize(() => this.resize()),
    ];
  }

  send(message) {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }

  input(bytes) {
    const piece = 4096; // far below what the API takes
    for (let at = 0; at < bytes.length; at += piece) this.send({stdin: {data: encoded(bytes.subarray(at, at + piece))}});
  }

  resize() { this.send({tty_size: {height: this.terminal.rows, width: this.terminal.cols}}); }

  take(message) {
    for (const stream of [message.stdout, message.stderr]) if (stream?.data) this.show(decoded(stream.data));
    if (message.exited) this.result = "The command has ended with the code " + message.result.exit_code;
  }

  // show leaves out what comes faster than it can be shown, and says so.
  show(bytes) {
    if (this.waiting + bytes.length > mostWaiting) {
      this.left += bytes.length;
      return;
    }
    if (this.left) this.terminal.write("\r\n[" + this.left + " bytes are left out]\r\n");
    this.left = 0;
    this.waiting += bytes.length;
    this.terminal.write(bytes, () => { this.waiting -= bytes.length; });
  }

  close(event) {
    for (const each of this.typing) each.dispose();
    return this.result || event.reason || (event.code === 1000 ? "The connection has ended" : "The connection broke");
  }
}

// theme is that of the page.
function theme() {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  return {background: color("back"), foreground: color("text"), cursor: color("text"), cursorAccent: color("back"), selectionBackground: color("line")};
}

// start makes the terminal of the page; token returns the one that the tab has.
export async function start(token) {
  const place = document.getElementById("terminal");
  const form = document.getElementById("execute");
  const end = document.getElementById("end");
  const told = (text) => { document.getElementById("told").textContent = text; };
  await styledByScript();
  const terminal = new Terminal({
    theme: theme(), minimumContrastRatio: 4.5, screenReaderMode: true, scrollback: lines, fontFamily: "monospace", fontSize: 14, linkHandler: {activate: () => {}}, // a task's output leads nowhere
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.key !== "F6") return true;
    (end.hidden ? document.getElementById("command") : end).focus();
    event.preventDefault();
    return false;
  });
  new ResizeObserver(() => fit.fit()).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { terminal.options.theme = theme(); });

  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let command;
    try {
      command = words(document.getElementById("command").value);
    } catch (error) {
      return told("This is no command: " + error.message);
    }
    terminal.reset();
    told("Connecting");
    const url = location.origin.replace(/^http/, "ws") + place.dataset.exec + "&command=" + encodeURIComponent(JSON.stringify(command));
    const session = new Session(terminal, url, token(), told);
    const [run] = form.getElementsByTagName("button");
    [run.disabled, end.hidden, end.onclick] = [true, false, () => session.socket.close()];
    told(await session.ended);
    [run.disabled, end.hidden] = [false, true];
    document.getElementById("command").focus();
  });
}
