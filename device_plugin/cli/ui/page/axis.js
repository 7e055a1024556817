// An axis of time: where the ticks are, and what they say in the browser's time zone.

import { t } from "./language.js";

const MINUTE = 60;
const HOUR = 3600;
const STEPS = [MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR];
const DAY = 24 * HOUR;

/** Seconds from `from` to `to` on a line of `width` pixels. */
export class Axis {
  constructor(from, to, width) {
    Object.assign(this, { from, to, width });
  }

  /** The pixel of a time, with one digit; times outside are at the edges. */
  x(at) {
    const share = (Math.min(Math.max(at, this.from), this.to) - this.from) / (this.to - this.from);
    return Math.round(share * this.width * 10) / 10;
  }

  /** The time at a pixel. */
  at(x) {
    return this.from + (Math.min(Math.max(x, 0), this.width) / this.width) * (this.to - this.from);
  }

  /** The times of round minutes or hours, at least `apart` pixels from each other. */
  ticks(apart) {
    const least = ((this.to - this.from) / Math.max(1, this.width)) * apart;
    const step = STEPS.find((each) => each >= least) ?? Math.ceil(least / DAY) * DAY;
    // Round in the time zone of the browser.
    const shift = new Date(this.from * 1000).getTimezoneOffset() * MINUTE;
    const found = [];
    for (let at = Math.ceil((this.from - shift) / step) * step + shift; at <= this.to; at += step) found.push(at);
    return found;
  }
}

/** A time of day: `14:05`. */
export function clock(at) {
  const date = new Date(at * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** A time of day, with the day if that is not today: `14:05`, `28 Nov 14:05`. */
export function moment(at) {
  const date = new Date(at * 1000);
  if (!Number.isFinite(date.getTime())) return "";
  if (Math.abs(at * 1000 - Date.now()) < DAY * 1000 && date.getDate() === new Date().getDate()) return clock(at);
  return t("date", { day: String(date.getDate()), month: t("months").split(" ")[date.getMonth()], time: clock(at) });
}

function two(number) {
  return String(number).padStart(2, "0");
}

/**
 * Marks of an axis, made by `make(class, x, text)`: one for each tick whose text has room, and one for the time `now` if
 * that is given.
 */
export function tickMarks(axis, apart, make, now = null) {
  const room = apart / 4;
  const marks = axis.ticks(apart)
    .filter((at) => axis.x(at) >= room && axis.x(at) <= axis.width - room)
    .filter((at) => now === null || Math.abs(axis.x(at) - axis.x(now)) > 2 * room)
    .map((at) => make("tick", axis.x(at), clock(at)));
  if (now !== null) marks.push(make("tick now", axis.x(now), t("now")));
  return marks;
}
