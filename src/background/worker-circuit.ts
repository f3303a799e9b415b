/**
 * Counts a worker's failures in a sliding window. Open (failing) once there are enough; closed
 * again by the first sign of health, or when the failures have grown old. A sign of health while
 * it is closed forgives nothing: one that fails every other time is failing, too.
 */
export interface Circuit {
  fail(): void
  ok(): void
  failing(): boolean
}

export const createCircuit = (
  { failures, windowMs }: { failures: number; windowMs: number },
  now: () => number = () => performance.now(),
): Circuit => {
  let times: number[] = []

  const failing = (): boolean => {
    const since = now() - windowMs
    times = times.filter((time) => time > since)
    return times.length >= failures
  }

  return {
    fail: () => {
      times.push(now())
      // More than enough of them say no more, and would grow without end.
      if (times.length > failures) times.shift()
    },
    ok: () => {
      if (failing()) times = []
    },
    failing,
  }
}
