// Rows one below the other, of which only those in sight are elements: thousands scroll as smoothly as a few.

import { PIECE } from "./turn.js";

// Pixels out of sight for which rows are made as well.
const MARGIN = 400;
// Rows that are drawn in a frame even where the page is slow.
const LEAST_ROWS = 4;
// Pixels at the top and at the bottom of the window in which a row is not well in sight.
const TOP = 130;
const BOTTOM = 120;

export class Rows {
  /**
   * `key(item)` names an item, `make[kind(item)]()` gives a row, an object with the element `root`. `fill(row, item, state)`
   * draws an item in a row, which may have shown another one of its kind; `number(row, i)` notes its place, and `drawn()`
   * is called after rows were made or removed.
   */
  constructor(root, { key, kind, make, fill, number, drawn }) {
    Object.assign(this, { root, key, kind, make, fill, number, drawn });
    // By kind, rows out of sight, to be used for other items.
    this.spare = new Map(Object.keys(make).map((each) => [each, []]));
    this.items = [];
    this.tops = new Float64Array(1);
    this.index = new Map();
    this.rows = new Map();
  }

  /** Show these items, each `height(item)` pixels high. Another `state` draws all rows anew. */
  show(items, state, height) {
    this.items = items;
    this.state = state;
    this.tops = new Float64Array(items.length + 1);
    this.index = new Map();
    items.forEach((item, i) => {
      this.index.set(this.key(item), i);
      this.tops[i + 1] = this.tops[i] + height(item);
    });
    this.root.style.height = `${this.tops[items.length]}px`;
    this.draw();
  }

  /** Make the rows in sight, and draw those whose items changed. What takes longer than half a piece is left for the next frame. */
  draw() {
    const end = performance.now() + PIECE / 2;
    let late = false;
    let done = 0;
    const above = this.root.getBoundingClientRect().top;
    const first = this.find(-above - MARGIN);
    const last = this.find(-above + innerHeight + MARGIN);
    const keep = new Set(this.items.slice(first, last + 1).map(this.key));
    // The row with the focus stays, however far somebody scrolls.
    const held = document.activeElement?.closest?.(".row")?.dataset.key;
    if (held !== undefined && this.index.has(held)) keep.add(held);
    for (const [key, row] of this.rows) {
      if (keep.has(key)) continue;
      this.rows.delete(key);
      // Another item must not get the focus by itself.
      if (row.root.contains(document.activeElement)) row.root.remove();
      else this.spare.get(row.kind).push(row);
    }
    for (const key of keep) {
      if (late) break;
      if (this.put(this.index.get(key))) done += 1;
      late = done >= LEAST_ROWS && performance.now() > end;
    }
    if (!late) this.clear();
    this.drawn();
    if (late && !this.late) {
      this.late = true;
      requestAnimationFrame(() => {
        this.late = false;
        this.draw();
      });
    }
  }

  /** Remove rows that show nothing. */
  clear() {
    for (const rows of this.spare.values()) {
      for (const row of rows.splice(0)) row.root.remove();
    }
  }

  /** Draw the rows of these keys, where they are in sight. */
  update(keys) {
    for (const key of keys) {
      const i = this.index.get(key);
      if (i !== undefined && this.rows.has(key)) this.put(i);
    }
    this.drawn();
  }

  /** Give an item a row, or draw it anew if its item or the state changed; returns true if there was something to do. */
  put(i) {
    const item = this.items[i];
    const key = this.key(item);
    let row = this.rows.get(key);
    if (!row) {
      const kind = this.kind(item);
      row = this.spare.get(kind).pop() ?? { ...this.make[kind](), kind };
      row.root.dataset.key = key;
      this.rows.set(key, row);
      if (!row.root.parentNode) this.root.append(row.root);
    }
    const changed = row.item !== item || row.state !== this.state;
    if (changed) this.fill(row, item, this.state);
    row.item = item;
    row.state = this.state;
    const top = `translateY(${this.tops[i]}px)`;
    if (row.top !== top) row.root.style.transform = row.top = top;
    const height = `${this.tops[i + 1] - this.tops[i]}px`;
    if (row.height !== height) row.root.style.height = row.height = height;
    if (row.place !== i) this.number(row, (row.place = i));
    return changed;
  }

  /** The index of the row at a height. */
  find(height) {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Bring a row into sight, and return it. */
  reveal(key) {
    const i = this.index.get(key);
    if (i === undefined) return undefined;
    const top = this.root.getBoundingClientRect().top + this.tops[i];
    if (top < TOP || top > innerHeight - BOTTOM) scrollBy(0, top - innerHeight / 3);
    this.draw();
    this.put(i);
    return this.rows.get(key);
  }
}
