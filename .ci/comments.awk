# Finds comments that are longer than `limit` columns; with `fix`, prints the file with them broken.
# Only lines that begin with // are broken; a comment behind code goes above its line.

function columns(text) { gsub(/[\200-\277]/, "", text); return length(text) }  # bytes that continue a character don't count

# Where the comment behind code begins; 0 if there is none. Quotes are counted, so that "https://" is none.
function comment_start(text,    at, quotes, i, c) {
  quotes = 0
  for (i = 1; i < length(text); i++) {
    c = substr(text, i, 1)
    if (c == "\\") { i++; continue }
    if (c == "\"") quotes = !quotes
    if (!quotes && substr(text, i, 2) == "//") return i
  }
  return 0
}

function marker(text) { return match(text, /^ *\/\/\/? ?/) ? substr(text, 1, RLENGTH) : "" }

# A line that goes on with the paragraph of the line before.
function continues(text, mark,    rest) {
  if (mark == "" || marker(text) != mark) return 0
  rest = substr(text, length(mark) + 1)
  return rest != "" && rest !~ /^([-*] |[#|>]|```|[0-9]+\. |    )/ && rest !~ /^(MARK|TODO)/
}

function wrap(mark, hang, words,    line, count, list, i, first) {
  count = split(words, list, / +/)
  line = mark list[1]
  for (i = 2; i <= count; i++) {
    if (columns(line " " list[i]) > limit) { print line; line = mark hang list[i] } else line = line " " list[i]
  }
  print line
}

{ lines[NR] = $0 }

END {
  bad = 0
  fenced = 0
  text_block = 0
  for (n = 1; n <= NR; n++) {
    text = lines[n]
    if (text_block) {
      if (text ~ /"""/) text_block = 0
      if (fix) print text
      continue
    }
    mark = marker(text)
    if (mark == "" && text ~ /"""/ && gsub(/"""/, "\"\"\"", text) % 2 == 1) text_block = 1
    if (mark != "" && text ~ /```/) fenced = !fenced
    if (columns(text) <= limit) { if (fix) print text; continue }
    if (mark != "" && !fenced) {
      if (!fix) { print file ":" n ": a comment of " columns(text) " columns, " limit " are allowed"; bad = 1; continue }
      rest = substr(text, length(mark) + 1)
      hang = ""
      if (match(rest, /^ *([-*]|[0-9]+\.) +/)) { hang = sprintf("%" RLENGTH "s", "") } else if (match(rest, /^ +/)) { hang = sprintf("%" RLENGTH "s", "") }
      lead = ""
      if (match(rest, /^ +/)) { lead = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1) }
      while (n < NR && continues(lines[n + 1], mark)) {
        more = substr(lines[n + 1], length(mark) + 1)
        if (hang != "" && substr(more, 1, length(hang)) != hang) break
        sub(/^ +/, "", more)
        rest = rest " " more
        n++
      }
      wrap(mark lead, substr(hang, length(lead) + 1), rest)
    } else if (mark == "" && !text_block && (at = comment_start(text)) > 0) {
      if (!fix) { print file ":" n ": a comment behind code, " columns(text) " columns, " limit " are allowed"; bad = 1; continue }
      match(text, /^ */)
      indentation = substr(text, 1, RLENGTH)
      comment = substr(text, at)
      mark = match(comment, /^\/\/\/? ?/) ? substr(comment, 1, RLENGTH) : "// "
      code = substr(text, 1, at - 1)
      sub(/ +$/, "", code)
      comment = substr(comment, length(mark) + 1)
      wrap(indentation mark, "", toupper(substr(comment, 1, 1)) substr(comment, 2))
      print code
    } else if (fix) print text
  }
  exit bad
}
