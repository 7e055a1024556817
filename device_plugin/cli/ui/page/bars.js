// Bars of a card, each one element: its parts are stops of a gradient, so that 40,000 cards need few elements.

import { WARN, wanted } from "./cluster.js";
import { hue } from "./color.js";

/** The colour of a slice: that of its namespace; `warn` where somebody should look, `dim` where the filter names others. */
export function tint(slice, index, place, node) {
  if (WARN.has(slice.state)) return "warn";
  // Somebody else's, whose name may not be seen.
  if (!slice.namespace) return "dim";
  if (!wanted(slice, place, node)) return "dim";
  return hue(slice.namespace, index % 2 === 1);
}

/** The colour of the part of a slice that is granted and not used. */
function pale(color) {
  return `color-mix(in oklab, ${color} 34%, var(--track))`;
}

const COLOR = { held: "var(--slice-a)", unused: pale("var(--slice-a)"), busy: "var(--text)", dim: "var(--dim)", warn: "var(--amber)" };
// Stripes of a part where somebody should look, so that more than its colour says it.
const STRIPES = 3;

/**
 * Paint parts, each `[from, to, colour, joined]` in a whole of `total`; nothing is between a `joined` part and the next
 * one. With `lines`, parts too, these are a layer of their own, whose height the stylesheet says.
 */
export function paint(bar, parts, total, lines = null) {
  const layers = [...(lines ? [lines] : []), parts].map((each) => gradient(each, total));
  const wantedImage = layers.join(", ");
  if (bar.image !== wantedImage) {
    bar.image = wantedImage;
    bar.style.backgroundImage = wantedImage;
  }
}

function gradient(parts, total) {
  const stops = [];
  for (const [from, to, name, joined] of parts.flatMap(striped)) {
    const a = share(from, total);
    const b = share(to, total);
    // A hair of the track between neighbours.
    const end = joined ? `${b}%` : `calc(${b}% - 1px)`;
    stops.push(`transparent ${a}%`, `${COLOR[name] ?? name} ${a}%`, `${COLOR[name] ?? name} ${end}`, `transparent ${end}`);
  }
  return stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
}

function striped(part) {
  const [from, to, name] = part;
  if (name !== "warn") return [part];
  const wide = (to - from) / (2 * STRIPES - 1);
  return Array.from({ length: STRIPES }, (_, i) => [from + 2 * i * wide, from + (2 * i + 1) * wide, name]);
}

function share(part, total) {
  return total ? Math.round((Math.min(part, total) / total) * 1000) / 10 : 0;
}

/** The memory of a card's slices: the used part of each, and paler the part that is not used. One colour where use is not known. */
export function memoryParts(card, place, node) {
  let from = 0;
  return card.slices.flatMap((slice, index) => {
    const to = from + slice.mib;
    const parts = sliceParts(slice, from, tint(slice, index, place, node));
    from = to;
    return parts;
  });
}

/** The parts of one slice that begins at `from`, in its colour. */
export function sliceParts(slice, from, color) {
  const used = slice.use?.mib ?? null;
  if (used === null || color === "warn" || color === "dim") return [[from, from + slice.mib, color]];
  const middle = from + Math.min(used, slice.mib);
  return [[from, middle, color, true], [middle, from + slice.mib, pale(color)]];
}

export function groupParts(card, place, node) {
  const parts = card.slices.flatMap((slice, index) =>
    slice.cores.map(([first, last]) => [first, last + 1, tint(slice, index, place, node)]));
  return parts.sort((one, other) => one[0] - other[0]);
}

/** The busy core groups of a card's slices, from the first of each slice on; nothing of slices that the filter leaves out. */
export function busyParts(card, place, node) {
  const parts = card.slices.flatMap((slice) => {
    let left = wanted(slice, place, node) ? slice.use?.groups ?? 0 : 0;
    return slice.cores.flatMap(([first, last]) => {
      const taken = Math.min(left, last + 1 - first);
      left -= taken;
      return taken > 0 ? [[first, first + taken, "busy", true]] : [];
    });
  });
  return parts.sort((one, other) => one[0] - other[0]);
}
