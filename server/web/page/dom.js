// Small things for the document.

export const $ = (id) => document.getElementById(id);

// reveal replaces characters that hide or reorder text by their numbers, as the server does in what it renders.
const deceives =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}\u{e0100}-\u{e01ef}]/gu;
export const reveal = (text) =>
  text.replace(deceives, (c) => `⟦U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟧`);

// make returns an element. Strings among the children become text, never HTML.
export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(
    ...children.filter((c) => c !== null && c !== undefined).map((c) => (typeof c === "string" ? reveal(c) : c)),
  );
  return node;
}

// The only place where HTML enters the page. It comes from this server, which has rendered and cleaned it.
const policy = self.trustedTypes?.createPolicy("rendered", { createHTML: (html) => html });
export function setRendered(node, html) {
  node.innerHTML = policy ? policy.createHTML(html) : html;
}

export function announce(text) {
  $("status").textContent = text;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // pages without TLS have no clipboard
    const area = make("textarea", { value: text, className: "hide" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce("Copied");
}

export function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
