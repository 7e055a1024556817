// The list of a view's entries; each entry is an element that stays as long as it is shown.

import { paint } from "./bars.js";
import { t } from "./language.js";
import { element, named, say } from "./text.js";

const FEW = 100;

export class List {
  /** `why(pod)` gives a paragraph about a waiting pod. */
  constructor(root, more, why) {
    this.root = root;
    this.more = more;
    this.items = new Map();
    this.fits = 0;
    this.most = FEW;
    root.addEventListener("click", (event) => {
      const button = event.target.closest(".why");
      if (button) explain(button, why);
    });
  }

  /** Show more of the entries that `show` was called with last. */
  longer() {
    this.most += FEW;
    this.again();
  }

  /** Show entries of a view, which makes an element of each: pairs of key and value, in their order. */
  show(view, entries) {
    if (view !== this.view) {
      this.root.replaceChildren();
      this.items.clear();
      this.most = FEW;
      this.view = view;
    }
    this.again = () => this.show(view, entries);
    this.fits = entries.length;
    const seen = entries.slice(0, this.most);
    const keys = new Set(seen.map(([key]) => key));
    for (const [key, item] of this.items) {
      if (!keys.has(key)) {
        item.root.remove();
        this.items.delete(key);
      }
    }
    let before = null;
    for (const [key, value] of seen) {
      let item = this.items.get(key);
      if (!item || item.value !== value) {
        const root = view.make(value);
        // A list that somebody has opened stays open.
        if (item?.root.querySelector("details")?.open) root.querySelector("details")?.setAttribute("open", "");
        item?.root.replaceWith(root);
        item = { root, value };
        this.items.set(key, item);
      }
      const next = before ? before.nextSibling : this.root.firstChild;
      if (next !== item.root) this.root.insertBefore(item.root, next);
      before = item.root;
    }
    this.more.hidden = entries.length <= this.most;
    say(this.more, t("show-more", { n: entries.length }));
  }
}

/** Put the whole answer about a pod in the place of its button. It may take seconds. */
async function explain(button, why) {
  button.disabled = true;
  say(button, t("asking"));
  const answer = await why(button.pod);
  const told = named("p", "told", answer.paragraph ?? answer.problem);
  told.tabIndex = -1;
  button.replaceWith(told);
  told.focus();
}

/** An entry: its title, whose it is, its state, and what stands at the end of the line. */
export function item(title, of, chip, end) {
  const root = element("li", "item");
  const head = element("h2");
  head.append(named("span", "", title), named("span", "of", of));
  if (chip) head.append(named("span", "chip", chip));
  if (end) head.append(end);
  root.append(head);
  return root;
}

/** Add a line to an entry, if there is a text. */
export function line(root, name, text) {
  if (text) root.append(named("p", name, text));
}

/** Add a bar to an entry: how many pods of a whole are bound. */
export function bar(root, part, whole) {
  const made = element("div", "meter");
  made.setAttribute("role", "img");
  made.setAttribute("aria-label", t("bound-of", { part, whole }));
  paint(made, [[0, part, "held"]], whole);
  root.append(made);
}
