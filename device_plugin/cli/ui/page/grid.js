// The nodes and their cards as a grid of which only the rows in sight are elements.

import { groupParts, memoryParts, paint } from "./bars.js";
import { count, element, memory, named, say } from "./text.js";
import { PIECE } from "./turn.js";

// Heights in pixels, as the stylesheet has them: a line of cards, a row's edges, a name above its cards.
const LINE = 52;
const EDGES = 15;
const NAME = 24;
// Rows out of sight that are made as well, and the width below which names stand above the cards.
const MARGIN = 400;
// Rows that are drawn in a frame even where the page is slow.
const LEAST_ROWS = 4;
const NARROW = 720;
const NAME_WIDTH = 206;
const LEAST_CARD = 122;

export class Grid {
  /** `open(node, card)` is called for a card that somebody chooses. */
  constructor(root, open) {
    this.root = root;
    this.open = open;
    this.nodes = [];
    this.tops = new Float64Array(1);
    this.rows = new Map();
    this.at = { node: "", index: 0 };
    this.place = null;
    root.addEventListener("click", (event) => this.clicked(event));
    root.addEventListener("keydown", (event) => this.pressed(event));
    root.addEventListener("focusin", (event) => this.focused(event));
  }

  /** Show these nodes. */
  show(nodes, place) {
    this.nodes = nodes;
    this.place = place;
    this.measure();
    this.root.setAttribute("aria-rowcount", String(nodes.length));
    this.root.setAttribute("aria-colcount", String(1 + Math.max(0, ...nodes.slice(0, 1000).map((node) => node.cards.length))));
    this.draw();
  }

  /** Compute where each row stands; its height depends on its cards and on the width. */
  measure() {
    const width = this.root.clientWidth;
    this.narrow = width < NARROW;
    const wide = this.narrow ? width : width - NAME_WIDTH;
    this.per = [8, 4, 2].find((each) => wide / each >= LEAST_CARD) ?? 1;
    this.root.classList.toggle("narrow", this.narrow);
    this.root.style.setProperty("--per", String(this.per));
    this.tops = new Float64Array(this.nodes.length + 1);
    this.index = new Map();
    this.nodes.forEach((node, i) => {
      const lines = Math.max(1, Math.ceil(node.cards.length / this.per));
      this.index.set(node.name, i);
      this.tops[i + 1] = this.tops[i] + lines * LINE + EDGES + (this.narrow ? NAME : 0);
    });
    this.root.style.height = `${this.tops[this.nodes.length]}px`;
  }

  /** Make the rows in sight, and draw those whose nodes changed. What takes longer than half a piece is left for the next frame. */
  draw() {
    const end = performance.now() + PIECE / 2;
    let late = false;
    let done = 0;
    const above = this.root.getBoundingClientRect().top;
    const first = this.find(-above - MARGIN);
    const last = this.find(-above + innerHeight + MARGIN);
    const keep = new Set();
    for (let i = first; i <= last && i < this.nodes.length; i += 1) {
      keep.add(this.nodes[i].name);
      if (late) continue;
      if (this.put(i)) done += 1;
      late = done >= LEAST_ROWS && performance.now() > end;
    }
    // The row with the focus stays, however far somebody scrolls.
    const held = document.activeElement?.closest?.(".row")?.dataset.node;
    if (held !== undefined && !keep.has(held) && this.index.has(held)) {
      keep.add(held);
      this.put(this.index.get(held));
    }
    for (const [name, row] of this.rows) {
      if (!keep.has(name)) {
        row.root.remove();
        this.rows.delete(name);
      }
    }
    this.rove();
    if (late && !this.late) {
      this.late = true;
      requestAnimationFrame(() => {
        this.late = false;
        this.draw();
      });
    }
  }

  /** Draw rows whose nodes changed, where they are in sight. */
  update(names) {
    for (const name of names) {
      const i = this.index?.get(name);
      if (i !== undefined && this.rows.has(name)) this.put(i);
    }
    this.rove();
  }

  /** Make a row, or draw it anew if its node or what is looked for changed; returns true if there was something to do. */
  put(i) {
    const node = this.nodes[i];
    let row = this.rows.get(node.name);
    if (!row) {
      row = makeRow(node);
      this.rows.set(node.name, row);
      this.root.append(row.root);
    }
    const changed = row.node !== node || row.place !== this.place;
    if (changed) fillRow(row, node, this.place);
    row.node = node;
    row.place = this.place;
    const top = `translateY(${this.tops[i]}px)`;
    if (row.top !== top) row.root.style.transform = row.top = top;
    const height = `${this.tops[i + 1] - this.tops[i]}px`;
    if (row.height !== height) row.root.style.height = row.height = height;
    if (row.index !== i) row.root.setAttribute("aria-rowindex", String((row.index = i) + 1));
    return changed;
  }

  /** The index of the row at a height. */
  find(height) {
    let low = 0;
    let high = this.nodes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Bring a node into sight. */
  reveal(name) {
    const i = this.index?.get(name);
    if (i === undefined) return;
    const top = this.root.getBoundingClientRect().top + this.tops[i];
    if (top < 130 || top > innerHeight - 120) scrollBy(0, top - innerHeight / 3);
    this.draw();
  }

  /** Give the focus to a card. */
  focus(name, index) {
    const i = this.index?.get(name);
    if (i === undefined) return;
    const most = this.nodes[i].cards.length - 1;
    this.at = { node: name, index: Math.max(0, Math.min(index, most)) };
    this.reveal(name);
    this.put(i);
    this.rows.get(name)?.cards[this.at.index]?.root.focus({ preventScroll: true });
  }

  /** One card of all can be reached by Tab: the last that had the focus, or the first in sight. */
  rove() {
    if (!this.rows.has(this.at.node)) {
      const first = this.nodes.find((node) => this.rows.has(node.name) && node.cards.length);
      this.at = { node: first?.name ?? "", index: 0 };
    }
    const wanted = this.rows.get(this.at.node)?.cards[this.at.index]?.root;
    if (this.roving !== wanted) {
      if (this.roving) this.roving.tabIndex = -1;
      if (wanted) wanted.tabIndex = 0;
      this.roving = wanted;
    }
  }

  clicked(event) {
    const card = event.target.closest(".card");
    if (card) this.open(card.closest(".row").dataset.node, Number(card.dataset.index));
  }

  focused(event) {
    const card = event.target.closest(".card");
    if (!card) return;
    this.at = { node: card.closest(".row").dataset.node, index: Number(card.dataset.index) };
    this.rove();
  }

  pressed(event) {
    const card = event.target.closest(".card");
    if (!card || event.ctrlKey || event.metaKey || event.altKey) return;
    const { node, index } = this.at;
    const i = this.index.get(node);
    const cards = this.nodes[i].cards.length;
    const page = Math.max(1, Math.floor(innerHeight / (this.tops[i + 1] - this.tops[i])) - 2);
    const near = (step) => this.nodes[Math.max(0, Math.min(this.nodes.length - 1, i + step))].name;
    const down = index + this.per < cards;
    const up = index - this.per >= 0;
    const target = {
      ArrowRight: () => [node, index + 1],
      ArrowLeft: () => [node, index - 1],
      ArrowDown: () => (down ? [node, index + this.per] : [near(1), index % this.per]),
      ArrowUp: () => (up ? [node, index - this.per] : [near(-1), index]),
      Home: () => (event.shiftKey ? [node, 0] : [this.nodes[0].name, 0]),
      End: () => (event.shiftKey ? [node, cards - 1] : [this.nodes.at(-1).name, 0]),
      PageDown: () => [near(page), index],
      PageUp: () => [near(-page), index],
    }[event.key]?.();
    if (target) {
      event.preventDefault();
      this.focus(...target);
    }
  }

  /** Mark the card that is open. */
  mark(node, uuid) {
    for (const [name, row] of this.rows) {
      row.cards.forEach((card) => {
        const pressed = String(name === node && card.uuid === uuid);
        if (card.root.getAttribute("aria-pressed") !== pressed) card.root.setAttribute("aria-pressed", pressed);
      });
    }
  }
}

function makeRow(node) {
  const root = element("div", "row");
  root.setAttribute("role", "row");
  root.dataset.node = node.name;
  const head = element("div", "node");
  head.setAttribute("role", "rowheader");
  const name = named("b", "", node.name);
  name.title = name.textContent;
  const about = element("span");
  const warn = element("span", "warn");
  head.append(name, about, warn);
  const cells = element("div", "cells");
  root.append(head, cells);
  return { root, about, warn, cells, cards: [] };
}

function fillRow(row, node, place) {
  const hives = node.hives.size > 1 ? `, ${count(node.hives.size, "hive")}` : "";
  say(row.about, node.complete ? `${[...node.models].join(", ") || "no cards"}${hives}` : "known from grants");
  row.root.classList.toggle("partial", !node.complete);
  say(row.warn, node.serving ? "" : "agent not serving");
  while (row.cards.length > node.cards.length) row.cards.pop().cell.remove();
  while (row.cards.length < node.cards.length) {
    const made = makeCard(row.cards.length);
    row.cards.push(made);
    row.cells.append(made.cell);
  }
  node.cards.forEach((card, i) => fillCard(row.cards[i], node, card, place));
}

function makeCard(index) {
  const cell = element("div");
  cell.setAttribute("role", "gridcell");
  const root = element("button", "card");
  root.type = "button";
  root.tabIndex = -1;
  root.dataset.index = String(index);
  root.setAttribute("aria-pressed", "false");
  const bars = [element("span", "memory"), element("span", "groups")];
  const says = element("span", "says");
  const texts = [element("span"), element("span")];
  says.append(...texts);
  root.append(...bars, says);
  cell.append(root);
  return { cell, root, bars, texts, index };
}

function fillCard(made, node, card, place) {
  made.uuid = card.uuid;
  const pressed = String(place.node === node.name && place.card === card.uuid);
  if (made.root.getAttribute("aria-pressed") !== pressed) made.root.setAttribute("aria-pressed", pressed);
  if (made.root.dataset.state !== card.state) made.root.dataset.state = card.state;
  paint(made.bars[0], memoryParts(card, place, node.name), card.mib);
  paint(made.bars[1], groupParts(card, place, node.name), card.groups);
  say(made.texts[0], card.room ? memory(card.freeMiB) : fullness(node, card));
  say(made.texts[1], card.room ? count(card.freeGroups, "group") : "");
  const label = cardLabel(node, card, made.index);
  if (made.label !== label) made.root.setAttribute("aria-label", (made.label = label));
}

/** Why a card has no room, in a few words; without rights to the node, what is known of it. */
function fullness(node, card) {
  if (card.state) return card.state;
  if (!node.complete) return count(card.slices.length, "slice");
  if (!node.serving) return "no agent";
  if (card.freeMiB && card.freeGroups) return "no slice left";
  if (card.freeMiB) return "no groups left";
  return card.freeGroups ? "no memory left" : "full";
}

function cardLabel(node, card, index) {
  const free = `free ${memory(card.freeMiB)} of ${memory(card.mib)} and ${card.freeGroups} of ${count(card.groups, "core group")}`;
  return [`Card ${index + 1} of ${node.name}`, card.state || (node.serving ? "" : "no agent"), node.complete ? free : "", count(card.slices.length, "slice")]
    .filter(Boolean).join(", ");
}
