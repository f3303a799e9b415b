/**
 * The address of a server as people set it: without the blanks and line breaks that a file or a shell
 * leaves at its ends, and without slashes behind it. Null where it is none: the parser of URLs would mend
 * a blank inside, or one slash for two, and lead elsewhere than it says.
 */
export const serverAddress = (text: string): string | null => {
  const address = text.trim().replace(/\/+$/, '')
  return /^https?:\/\/[^/\s]\S*$/i.test(address) && URL.canParse(address) ? address : null
}
