// One card at large: what it has, its core groups one by one, who holds what of it, and its use over time.

import { actions } from "./actions.js";
import { groupParts, memoryParts, paint, sliceParts, tint } from "./bars.js";
import { lineChart } from "./chart.js";
import { quoted } from "./command.js";
import { known, t } from "./language.js";
import { aged, element, memory, named, ranges, say } from "./text.js";
import { cardUse, useText } from "./use.js";

// The hours of use that people can choose.
const SPANS = [1, 6, 24];

export class Panel {
  /**
   * `open(node, index)` is called for another card that somebody chooses in it; `use(node, card, hours)` gives the use
   * over time, if that is known.
   */
  constructor(root, open, use) {
    this.root = root;
    this.use = use;
    this.hours = 6;
    this.key = "";
    root.addEventListener("click", (event) => {
      const other = event.target.closest(".other");
      if (other) open(this.node, Number(other.dataset.index));
    });
  }

  hide() {
    if (!this.key) return;
    this.root.replaceChildren();
    this.key = this.actionsOf = "";
    this.shown = null;
  }

  /** Show a card as it is now. */
  show(node, card, place) {
    const key = `${node.name}/${card.uuid}`;
    if (this.key !== key) {
      this.key = key;
      this.root.hidden = false;
      this.root.scrollTop = 0;
      this.build(node, card);
      this.history(node.name, card.uuid);
    } else if (this.shown === node && this.place === place) return;
    this.shown = node;
    this.node = node.name;
    this.place = place;
    this.fill(node, card, place);
  }

  focus() {
    this.title?.focus({ preventScroll: true });
  }

  build(node, card) {
    const head = element("header");
    this.title = named("h2", "", card.uuid);
    this.title.id = "panel-title";
    this.title.tabIndex = -1;
    const close = element("button", "close", "×");
    close.type = "button";
    close.setAttribute("aria-label", t("close-card"));
    head.append(this.title, close);
    this.where = named("p", "soft", `${node.name}${card.model ? `, ${card.model}` : ""}${card.family ? `, ${card.family}` : ""}`);
    this.state = element("p", "state");
    this.facts = element("dl", "facts");
    this.memory = element("div", "big");
    this.units = element("div", "units");
    this.slices = element("div");
    this.slicesTitle = element("h3");
    this.chart = element("div");
    this.actions = element("div");
    this.unitsTitle = element("h3", "", t("core-groups"));
    this.root.replaceChildren(
      head, this.where, this.state, this.actions, this.facts, element("h3", "", t("memory")), this.memory, this.unitsTitle, this.units,
      this.chart, this.slicesTitle, this.slices,
    );
  }

  fill(node, card, place) {
    const closed = card.state ? known("is-", card.state) : node.serving ? "" : t("is-without-agent");
    say(this.state, closed);
    this.state.hidden = !closed;
    this.state.classList.toggle("grave", card.state === "unhealthy");
    this.act(node, card);
    const linked = card.hive ? node.cards.flatMap((each, i) => (each !== card && each.hive === card.hive ? [i + 1] : [])) : [];
    const facts = node.complete
      ? [
          [t("memory-free"), t("of", { part: memory(card.freeMiB), whole: memory(card.mib) })],
          [t("groups-free"), t("of", { part: card.freeGroups, whole: card.groups })],
          ...(card.slices.length ? [[t("in-use"), cardUse(card)]] : []),
          [t("slices"), t("slices-room", { n: card.slices.length, more: card.room ? card.free : 0 })],
          ...(linked.length ? [[t("linked"), t(linked.length > 1 ? "card-numbers" : "card-numbers-one", { numbers: linked.join(t("list-comma")) })]] : []),
          ...(card.numa >= 0 ? [[t("numa"), String(card.numa)]] : []),
        ]
      : [[t("memory"), memory(card.mib)], [t("slices-seen"), String(card.slices.length)]];
    this.facts.replaceChildren(...facts.flatMap(([name, text]) => [element("dt", "", name), element("dd", "", text)]));
    paint(this.memory, memoryParts(card, place, node.name), card.mib);
    const tints = new Array(card.groups).fill("");
    for (const [from, to, name] of groupParts(card, place, node.name)) tints.fill(name, from, Math.min(to, card.groups));
    while (this.units.childElementCount > card.groups) this.units.lastChild.remove();
    while (this.units.childElementCount < card.groups) this.units.append(element("i"));
    [...this.units.children].forEach((unit, i) => color(unit, tints[i]));
    say(this.slicesTitle, card.slices.length ? t("n-slices", { n: card.slices.length }) : t("no-slices"));
    const focused = [...this.slices.querySelectorAll(".other")].indexOf(document.activeElement);
    this.slices.replaceChildren(...card.slices.map((slice, i) => sliceLine(slice, card, node, tint(slice, i, place, node.name))));
    if (focused >= 0) this.slices.querySelectorAll(".other")[focused]?.focus();
  }

  /** What may be done about the card; it stays as it is until the card's state changes. */
  act(node, card) {
    if (!node.complete || this.actionsOf === `${this.key} ${card.state}`) return;
    this.actionsOf = `${this.key} ${card.state}`;
    const action = card.state === "cordoned" ? "uncordon" : "cordon";
    this.actions.replaceChildren(actions([
      [`do-${action}`, `vgpu ${action} ${quoted(`${node.name}/${card.uuid}`)}`, { action, node: node.name, card: card.uuid }],
    ]));
  }

  /** Ask for the use over time and draw it, unless another card or time is chosen meanwhile. */
  async history(node, card) {
    const { key, hours } = this;
    const found = await this.use(node, card, hours);
    if (!found || this.key !== key || this.hours !== hours) return;
    if (!this.chart.firstChild) this.chart.append(this.spans(node, card), element("div"));
    this.chart.lastChild.replaceChildren(...(found.problem
      ? [element("p", "soft", found.problem)]
      : Object.entries(found.series).flatMap(([name, pairs]) => lineChart(name, pairs, found))));
  }

  /** The title of the charts, with the choice of their time. */
  spans(node, card) {
    const [title, label, choice] = [element("h3"), element("label", "", t("use-of-last")), element("select")];
    for (const hours of SPANS) choice.append(new Option(t(`hours-${hours}`), String(hours), false, hours === this.hours));
    choice.addEventListener("change", () => {
      this.hours = Number(choice.value);
      this.history(node, card);
    });
    label.append(choice);
    title.append(label);
    return title;
  }
}

/** Give an element the colour of a slice; those that have a pattern are classes. */
function color(mark, name) {
  const pattern = name === "warn" || name === "dim" ? `tint-${name}` : "";
  if (mark.className !== pattern) mark.className = pattern;
  const wanted = pattern ? "" : name;
  if (mark.color !== wanted) mark.style.background = mark.color = wanted;
}

/** The indexes of the node's other cards of which the slice's container holds a part too. */
function others(slice, card, node) {
  if (!slice.pod) return [];
  const same = (each) => ["namespace", "pod", "container"].every((key) => each[key] === slice[key]);
  return node.cards.flatMap((each, i) => (each !== card && each.slices.some(same) ? [i] : []));
}

function sliceLine(slice, card, node, name) {
  const root = element("div", "slice");
  const mark = element("i");
  color(mark, name);
  const whose = element("div");
  if (slice.pod) whose.append(named("b", "", slice.pod), named("div", "soft", t("of-container", slice)));
  else whose.append(element("b", "", t("others")));
  const groups = slice.cores.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  if (slice.pod) whose.append(element("div", "soft", useText(slice, groups)));
  if (slice.use?.idle) whose.append(aged("div", "soft", slice.use.idle, t("idle-for")));
  if (slice.state) whose.append(element("div", "warn", known("slice-", slice.state)));
  const also = others(slice, card, node);
  if (also.length) {
    const line = element("div", "soft", t("also-on"));
    for (const index of also) {
      const other = element("button", "other", t("card-number", { n: index + 1 }));
      other.type = "button";
      other.dataset.index = String(index);
      line.append(other, " ");
    }
    whose.append(line);
  }
  const amount = element("div", "amount", memory(slice.mib));
  // Without rights to the node its cards are as large as what is seen of them.
  const share = node.complete && card.mib ? Math.round((slice.mib / card.mib) * 100) : null;
  amount.append(element("div", "soft", share === null ? t("n-groups", { n: groups }) : t("share-groups", { share, groups: t("n-groups", { n: groups }) })), aged("div", "soft", slice.since));
  amount.title = t("which-groups", { ids: ranges(slice.cores) });
  root.append(mark, whose, amount);
  if (slice.use) root.append(useBar(slice, groups, name));
  return root;
}

/** A bar of a slice alone: its memory with the used part in it, and the busy part of its core groups as a line. */
function useBar(slice, groups, name) {
  const bar = element("div", "used");
  bar.setAttribute("aria-hidden", "true");
  const [memoryBar, line] = [element("span"), element("span")];
  paint(memoryBar, sliceParts(slice, 0, name), slice.mib);
  paint(line, slice.use.groups ? [[0, slice.use.groups, "busy", true]] : [], groups);
  bar.append(memoryBar, line);
  return bar;
}
