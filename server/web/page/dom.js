// Small things for the document.

export const $ = (id) => document.getElementById(id);

// make returns an element. Strings among the children become text, never HTML.
export function make(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name in node) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
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
