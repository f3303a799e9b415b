/**
 * A circuit breaker for one worker, which counts its failures in a sliding window. It opens (the
 * worker is failing) once there are enough, and closes at the first sign of health, or when the
 * failures have grown old. A sign of health while it is closed forgives nothing: a worker that
 * fails every other time is failing, too.
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
      // Any more than enough would add nothing, and the list would grow without end.
      if (times.length > failures) times.shift()
    },
    ok: () => {
      if (failing()) times = []
    },
    failing,
  }
}
