/**
 * Where a webhook may lead: to public addresses only, unless the operator has listed more. This is
 * checked twice: the URL when a config is made, without asking any name server, and every address
 * of its name when a connection is made, since the name may have come to mean something else.
 */
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

export interface GuardOptions {
  allowHttp: boolean
  /**
   * CIDRs, addresses and names that are allowed even if they are not public. An address where a cloud
   * keeps credentials is allowed by itself only, not by a network that holds it.
   */
  allow: readonly string[]
  /** Where this node listens, which is never a target, listed or not. */
  own: () => { host: string; port: number } | null
}

export interface Guard {
  /** What is wrong with the URL of a webhook; null where it may be kept. */
  urlProblem(url: string): string | null
  /** Why this address of `host` may not be connected to; null where it may. */
  addressProblem(host: string, address: string, port: number): string | null
  /** Whether the operator listed the name, which name servers may not know but this machine may. */
  isListed(host: string): boolean
}

const URL_LENGTH_AT_MOST = 2048

type Range = [ipaddr.IPv4 | ipaddr.IPv6, number]

/** Reads `10.0.0.0/8` or `::1`; null for a name. */
const toRange = (text: string): Range | null => {
  if (ipaddr.isValidCIDR(text)) return ipaddr.parseCIDR(text)
  if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) return null
  const address = ipaddr.parse(text)
  return [address, address.kind() === 'ipv4' ? 32 : 128]
}

const isWithin = (address: ipaddr.IPv4 | ipaddr.IPv6, [base, bits]: Range): boolean =>
  address.kind() === base.kind() && address.match([base, bits])

/** All IPv6 addresses of the public internet; the rest are kept for other uses. */
const GLOBAL_IPV6: Range = [ipaddr.parse('2000::'), 3]
/** Ranges within it that are not the internet: the new and the old one for documentation. */
const DOCUMENTATION: Range[] = [
  [ipaddr.parse('3fff::'), 20],
  [ipaddr.parse('2001:db8::'), 32],
]

const isPublic = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean => {
  if (address.range() !== 'unicast') return false
  if (address.kind() === 'ipv4') return true
  return isWithin(address, GLOBAL_IPV6) && !DOCUMENTATION.some((range) => isWithin(address, range))
}

/**
 * Where clouds hand a machine its credentials, to whoever asks from it. Some are public addresses, and
 * none is in a network that an operator means by listing it: each must be listed by itself.
 */
const METADATA = new Set(
  [
    // AWS, Azure, Google, Oracle, IBM, DigitalOcean, Hetzner, Alibaba, Huawei, OpenStack, and others.
    '169.254.169.254',
    // AWS: by IPv6, and the credentials of tasks and pods.
    'fd00:ec2::254',
    '169.254.170.2',
    '169.254.170.23',
    'fd00:ec2::23',
    // Azure's host: metadata, extensions' secrets, name service.
    '168.63.129.16',
    // Google and OpenStack, Oracle and Linode by IPv6.
    'fd20:ce::254',
    'fe80::a9fe:a9fe',
    'fd00:c1::a9fe:a9fe',
    'fd00:a9fe:a9fe::1',
    // Alibaba, Oracle, Tencent, Volcengine.
    '100.100.100.200',
    '192.0.0.192',
    '169.254.0.23',
    '169.254.10.10',
    '100.96.0.96',
    // Scaleway.
    '169.254.42.42',
    'fd00:42::42',
  ].map((text) => ipaddr.parse(text).toString()),
)

/** Names under which machines of a cloud find them; whoever lists one means the address behind it. */
const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
])

/** Prefixes of 96 bits that an IPv4 address can be behind. */
const WRAPPERS: Range[] = ['::', '::ffff:0:0:0', '64:ff9b::'].map((base) => [
  ipaddr.parse(base),
  96,
])
const SIX_TO_FOUR: Range = [ipaddr.parse('2002::'), 16]

/** The address itself, or the IPv4 address that a gateway would make of it. */
const reached = (address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 => {
  const bytes = address.toByteArray()
  if (isWithin(address, SIX_TO_FOUR)) return ipaddr.fromByteArray(bytes.slice(2, 6))
  const wraps = WRAPPERS.some((range) => isWithin(address, range))
  return wraps ? ipaddr.fromByteArray(bytes.slice(12)) : unwrapped(address)
}

const isMetadata = (address: ipaddr.IPv4 | ipaddr.IPv6): boolean =>
  METADATA.has(reached(address).toString())

/** An IPv4 address mapped into IPv6 as itself, so that IPv4 ranges in the list cover it, too. */
const unwrapped = (address: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv4 | ipaddr.IPv6 =>
  address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress()
    ? address.toIPv4Address()
    : address

/** Names that never belong to a host of the internet (RFC 6761, 6762, 8375, and common use). */
const LOCAL_NAME = /(^|\.)(localhost|local|localdomain|internal|intranet|lan|home\.arpa|corp|home)$/

/** A host in the form it is compared in: no brackets, no trailing dot, lower case. */
const plainHost = (host: string): string =>
  host
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '')
    .toLowerCase()

/** The host as it was written, before the URL parser normalizes it. */
const writtenHost = (url: string): string | null =>
  /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#\\]*@)?(\[[^\]]*\]|[^:/?#\\]*)/i.exec(url)?.[1] ?? null

const isLoopback = (address: string): boolean =>
  ipaddr.isValid(address) && unwrapped(ipaddr.parse(address)).range() === 'loopback'

const same = (one: string, other: string): boolean =>
  ipaddr.isValid(one) &&
  ipaddr.isValid(other) &&
  unwrapped(ipaddr.parse(one)).toString() === unwrapped(ipaddr.parse(other)).toString()

/** Whether a server that listens on `host` is reached at `address`. */
const listensAt = (host: string, address: string): boolean => {
  const listening = plainHost(host)
  if (!ipaddr.isValid(listening)) return isLoopback(address)
  if (ipaddr.parse(listening).range() !== 'unspecified') return same(listening, address)
  const here = Object.values(networkInterfaces()).flatMap((found) => found ?? [])
  return isLoopback(address) || here.some((known) => same(known.address, address))
}

export const createGuard = ({ allowHttp, allow, own }: GuardOptions): Guard => {
  const ranges = allow.map(toRange).filter((range) => range !== null)
  const alone = new Set(
    ranges
      .filter(([base, bits]) => bits === base.toByteArray().length * 8)
      .map(([base]) => base.toString()),
  )
  const names = new Set(allow.filter((entry) => toRange(entry) === null).map(plainHost))

  const isListed = (host: string): boolean => names.has(plainHost(host))

  const addressProblem = (host: string, text: string, port: number): string | null => {
    // A zone names one of our own interfaces, which nobody outside can mean.
    if (text.includes('%') || !ipaddr.isValid(text)) return 'is not an address'
    const self = own()
    if (self && self.port === port && listensAt(self.host, text)) return 'is this server itself'
    const address = unwrapped(ipaddr.parse(text))
    if (isMetadata(address)) {
      const isMeant = isListed(host) && METADATA_NAMES.has(plainHost(host))
      return isMeant || alone.has(address.toString()) ? null : 'is where a cloud keeps credentials'
    }
    if (isListed(host) || ranges.some((range) => isWithin(address, range))) return null
    return isPublic(ipaddr.parse(text)) ? null : 'is not a public address'
  }

  const hostProblem = (url: URL, written: string): string | null => {
    const host = plainHost(url.hostname)
    if (isListed(host)) return null
    if (!ipaddr.isValid(host)) {
      if (host.split('.').includes('')) return 'must have a name as its host'
      const local = LOCAL_NAME.test(host) || !host.includes('.')
      return local ? 'must not lead to a local name' : null
    }
    // Octal, hexadecimal, one number, digits of other scripts: only a disguise needs them.
    const isIPv4 = !url.hostname.startsWith('[')
    if (isIPv4 && plainHost(written) !== host) return 'must spell its address in the usual way'
    const problem = addressProblem(host, host, Number(url.port || (isHttps(url) ? 443 : 80)))
    return problem && `must lead to a public address: ${host} ${problem}`
  }

  return {
    isListed,
    addressProblem,
    urlProblem: (text) => {
      if (text.length > URL_LENGTH_AT_MOST)
        return `must be at most ${URL_LENGTH_AT_MOST} characters`
      // biome-ignore lint/suspicious/noControlCharactersInRegex: the URL parser would drop some
      if (/[\u0000-\u0020\u007f\\]/.test(text))
        return 'must hold no spaces, control characters and backslashes'
      const written = writtenHost(text)
      if (!URL.canParse(text) || !written) return 'must be an absolute URL with a host'
      const url = new URL(text)
      if (!isHttps(url) && !(allowHttp && url.protocol === 'http:')) {
        return `must begin with https://${allowHttp ? ' or http://' : ''}`
      }
      if (url.username || url.password) return 'must hold no user and no password'
      return hostProblem(url, written)
    },
  }
}

const isHttps = ({ protocol }: URL): boolean => protocol === 'https:'
