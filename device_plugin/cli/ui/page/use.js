// What is used of what is held: the figures of slices, their sums, and how both are written. A figure that is not known
// is null; a sum counts the slices of which it is known.

import { t } from "./language.js";
import { memory } from "./text.js";

/** The sums of no slices. */
export function nothing() {
  return { slices: 0, known: 0, heldMiB: 0, usedMiB: 0, unusedMiB: 0, idle: 0 };
}

/**
 * Give each slice of a card its figures, or null: MiB in use, busy core groups, unused MiB, idle since when. `found` has
 * them by namespace, card, and pod and container.
 */
export function take(card, found) {
  for (const slice of card.slices) {
    const figures = found?.get(slice.namespace)?.[card.uuid]?.[`${slice.pod}/${slice.container}`];
    slice.use = figures ? { mib: figures[0], groups: figures[1], unused: figures[2], idle: figures[3] } : null;
  }
}

/** Add a slice to sums. */
export function add(sums, slice) {
  sums.slices += 1;
  if (!slice.use || slice.use.unused === null) return;
  sums.known += 1;
  sums.heldMiB += slice.mib;
  sums.usedMiB += Math.min(slice.use.mib ?? 0, slice.mib);
  sums.unusedMiB += slice.use.unused;
  if (slice.use.idle) sums.idle += 1;
}

/** Add sums to sums; with `sign` -1 take them away. */
export function join(sums, others, sign = 1) {
  for (const key of Object.keys(sums)) sums[key] += sign * others[key];
}

/** What is granted and not used, as text: `3 GiB`; empty where it is not known of each slice, or where none is. */
export function unused(sums) {
  return sums.slices && sums.known === sums.slices ? memory(sums.unusedMiB) : "";
}

/** What a slice uses, as text: `uses 0.5 of 4 GiB and 3.2 of 15 groups`. */
export function useText(slice, groups) {
  const { use } = slice;
  if (!use) return t("use-not-known");
  const used = use.mib === null ? "?" : memory(use.mib);
  return use.groups === null ? t("uses", { used }) : t("uses-both", { used, busy: use.groups, groups: t("n-groups", { n: groups }) });
}

/** What the slices of a card use together, as text; empty for a card without slices. */
export function cardUse(card) {
  const sums = nothing();
  for (const slice of card.slices) add(sums, slice);
  if (!sums.slices) return "";
  if (!sums.known) return t("use-not-known");
  const of = sums.known < sums.slices ? t("known-of", { part: sums.known, slices: t("n-slices", { n: sums.slices }) }) : "";
  const idle = sums.idle ? t("n-idle", { n: sums.idle }) : "";
  return `${t("held-in-use", { used: memory(sums.usedMiB), held: memory(sums.heldMiB) })}${of}${idle}`;
}
