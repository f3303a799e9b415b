/**
 * Loaded into a process before its program: the wall clock is wrong there by CLOCK_SKEW_MS. What
 * measures spans (performance.now, timers) is right, as on a machine whose clock was set wrongly.
 */
const skewMs = Number(process.env.CLOCK_SKEW_MS ?? 0)
const RealDate = Date

class SkewedDate extends RealDate {
  constructor(...given: [] | [number | string | Date] | [number, number, ...number[]]) {
    if (given.length === 0) super(RealDate.now() + skewMs)
    else super(...(given as [number]))
  }

  static override now(): number {
    return RealDate.now() + skewMs
  }
}

globalThis.Date = SkewedDate as DateConstructor
