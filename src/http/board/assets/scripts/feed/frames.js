/**
 * Gives frames that have an id and no data an empty one. To the standard such a frame is a position to
 * resume from, and a stream begins with it; eventsource-parser would drop it, id and all. The kit has
 * the same (event-stream.ts), and a test compares the two.
 */
const DATA = 'data:'

/** A function that takes the text as it comes, however it is cut, and returns it completed. */
export const createFrameCompleter = () => {
  let begun = ''
  let hasId = false
  let hasData = false
  const endLine = () => {
    const isBare = begun === '' && hasId && !hasData
    hasId = begun !== '' && (hasId || begun.startsWith('id:'))
    hasData = begun !== '' && (hasData || begun === DATA)
    begun = ''
    return isBare ? `${DATA}\n\n` : '\n'
  }
  const add = (piece) => {
    begun = (begun + piece).slice(0, DATA.length)
    return piece
  }
  return (text) => {
    const [first = '', ...lines] = text.split('\n')
    return add(first) + lines.map((line) => endLine() + add(line)).join('')
  }
}
