/** What one caller, and all of them, may cost a node over HTTP; and who may read its metrics. */
import type { Log } from '../base/log.ts'
import type { Config } from '../config.ts'
import { createBounds } from '../http/bounds/bounds.ts'

const isLoopback = (host: string): boolean =>
  host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)

export const httpLimits = (config: Config, log: Pick<Log, 'warn'>) => {
  const { host, metricsToken, metricsCacheSeconds, maxBodyValues, inFlightMegabytes } = config
  const metricsClosed = metricsToken === null && !isLoopback(host)
  if (metricsClosed) {
    log.warn(
      { host },
      '/metrics is answered 403: HOST is not a loopback address and SWITCHBOARD_METRICS_TOKEN is not set',
    )
  }
  return {
    metricsToken,
    metricsClosed,
    metricsCacheMs: metricsCacheSeconds * 1000,
    maxBodyValues,
    bounds: createBounds({
      maxCalls: config.maxCallsPerEndpoint,
      maxStreams: config.maxStreamsPerEndpoint,
      ...(inFlightMegabytes && { inFlightBytes: inFlightMegabytes * 2 ** 20 }),
    }),
  }
}
