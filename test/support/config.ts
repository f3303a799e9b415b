/** How a node of a test or a benchmark is configured: silent, on loopback, at any free port. */
import type { Config } from '../../src/config.ts'

export const ADMIN_TOKEN = 'admin-token-of-the-tests'

export const testConfig = (more: Partial<Config> = {}): Config => ({
  databaseUrl: null,
  directUrl: null,
  natsUrl: null,
  dataDir: '/nonexistent',
  host: '127.0.0.1',
  port: 0,
  publicUrl: null,
  card: 'hybrid',
  cardKeys: [],
  adminToken: ADMIN_TOKEN,
  metricsToken: null,
  metricsCacheSeconds: 0,
  maxBodyValues: 200_000,
  maxCallsPerEndpoint: 1000,
  maxStreamsPerEndpoint: 1000,
  inFlightMegabytes: null,
  webhookAllowHttp: false,
  webhookAllow: [],
  logLevel: 'silent',
  ...more,
})
