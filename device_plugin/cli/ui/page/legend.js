// The namespaces with their colours and amounts; each is a button that filters by it.

import { hue } from "./color.js";
import { t } from "./language.js";
import { element, named, say, shown } from "./text.js";

const MOST = 12;

export class Legend {
  /** `choose(namespace)` is called for a namespace that somebody chooses, with an empty text for the one of the filter. */
  constructor(root, choose) {
    this.root = root;
    this.more = element("span", "soft");
    this.buttons = new Map();
    root.append(this.more);
    root.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) choose(button.getAttribute("aria-pressed") === "true" ? "" : button.namespace);
    });
  }

  /** Show the amounts by namespace, the largest first, each with `text(amount, namespace)`. */
  show(amounts, text, place) {
    const largest = [...amounts].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1));
    const seen = largest.slice(0, MOST);
    const chosen = place.exact && largest.find(([name]) => name === place.namespace);
    if (chosen && !seen.includes(chosen)) seen.push(chosen);
    const names = new Set(seen.map(([name]) => name));
    for (const [name, button] of this.buttons) {
      if (names.has(name)) continue;
      button.remove();
      this.buttons.delete(name);
    }
    seen.forEach(([name, amount], i) => {
      const button = this.buttons.get(name) ?? this.make(name);
      if (this.root.children[i] !== button) this.root.insertBefore(button, this.root.children[i]);
      say(button.lastChild, text(amount, name));
      const color = hue(name);
      if (button.color !== color) button.firstChild.style.background = button.color = color;
      button.setAttribute("aria-pressed", String(Boolean(place.exact) && name === place.namespace));
    });
    const left = largest.length - seen.length;
    say(this.more, left > 0 ? t("more-namespaces", { n: left }) : "");
    this.root.hidden = !seen.length;
  }

  make(name) {
    const button = element("button", "space");
    button.type = "button";
    button.namespace = name;
    const mark = element("i");
    mark.setAttribute("aria-hidden", "true");
    button.append(mark, named("span", "", shown(name)), element("span", "soft"));
    this.buttons.set(name, button);
    return button;
  }
}
