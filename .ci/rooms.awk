# Reads names of files. See check-rooms.
#
# A use is the name of a type, a protocol or an alias that another file declares outside of any braces, read in code: not in a comment or a
# string, not behind a dot. What a room adds to a type of another in an extension is not seen.

function fail(text) { print text; failures++ }

# The code of a line: without comments and strings. `in_comment` and `in_text` go from line to line.
function code_of(line,    result, i, c, two, three) {
  result = ""
  for (i = 1; i <= length(line); i++) {
    two = substr(line, i, 2)
    three = substr(line, i, 3)
    if (in_comment) { if (two == "*/") { in_comment = 0; i++ } continue }
    if (in_text) { if (three == "\"\"\"") { in_text = 0; i += 2 } continue }
    if (three == "\"\"\"") { in_text = 1; i += 2; continue }
    if (two == "//") break
    if (two == "/*") { in_comment = 1; i++; continue }
    c = substr(line, i, 1)
    if (c == "\"") {
      for (i++; i <= length(line) && substr(line, i, 1) != "\""; i++) if (substr(line, i, 1) == "\\") i++
      result = result "\"\""
      continue
    }
    result = result c
  }
  return result
}

function module_of(file,    parts) { split(file, parts, "/"); return parts[2] }

# The innermost room a file lies in. A room that holds others is their hall: only what lies directly in its folder is in it, so that a folder
# that is added there has to become a room.
function room_of(file,    i, found, rest) {
  found = 0
  for (i = 1; i <= rooms; i++) if (index(file, folder[i] "/") == 1 && (!found || length(folder[i]) > length(folder[found]))) found = i
  if (!found) return 0
  rest = substr(file, length(folder[found]) + 2)
  for (i = 1; i <= rooms; i++) if (rest ~ /\// && index(folder[i], folder[found] "/") == 1) return 0
  return found
}

function change_of_depth(code,    opened, closed) { opened = gsub(/{/, "{", code); closed = gsub(/}/, "}", code); return opened - closed }

function declared_name(code,    rest) {
  if (!match(code, /(^|[ @)])(class|struct|enum|protocol|actor|typealias) +[A-Z][A-Za-z0-9_]*/)) return ""
  rest = substr(code, RSTART, RLENGTH)
  sub(/^.*(class|struct|enum|protocol|actor|typealias) +/, "", rest)
  return rest
}

BEGIN {
  while ((getline line < ".ci/rooms") > 0) {
    if (line ~ /^ *(#|$)/) continue
    split(line, fields, / +/)
    name[++rooms] = fields[1]
    folder[rooms] = fields[2]
    whole[rooms] = fields[3] == "whole"
    apart[rooms] = fields[3] == "apart"
  }
  while ((getline line < ".ci/rooms-exceptions") > 0) {
    if (line !~ /^ *(#|$)/) { sub(/ +/, " ", line); excepted[line] = 1 }
  }
}

{
  file = $0
  files[++file_count] = file
  room[file] = room_of(file)
  if (room[file] == 0) fail(file ": lies in no room of .ci/rooms")
  count = 0
  depth = 0
  in_comment = in_text = 0
  while ((getline line < file) > 0) {
    code = code_of(line)
    lines[file, ++count] = code
    type = declared_name(code)
    if (type != "") {
      local = depth > 0 || code ~ /(^|[ ])(private|fileprivate) /
      if (local) own[file, type] = 1; else home[module_of(file), type] = file
    }
    depth += change_of_depth(code)
  }
  close(file)
  line_count[file] = count
}

END {
  split("OwnedOperations OwnedRequests OwnedOperationsTesting", libraries, " ")
  for (f = 1; f <= file_count; f++) {
    file = files[f]
    for (n = 1; n <= line_count[file]; n++) {
      rest = lines[file, n]
      if (rest ~ /^ *import /) continue
      before = ""
      while (match(rest, /[A-Za-z_][A-Za-z0-9_]*/)) {
        token = substr(rest, RSTART, RLENGTH)
        if (RSTART > 1) before = substr(rest, RSTART - 1, 1)
        rest = substr(rest, RSTART + RLENGTH)
        is_member = before == "."
        before = substr(token, length(token))
        if (is_member || token !~ /^[A-Z]/ || (file, token) in own) continue
        target = ""
        if ((module_of(file), token) in home) target = home[module_of(file), token]
        else for (l = 1; l in libraries && target == ""; l++) if ((libraries[l], token) in home) target = home[libraries[l], token]
        if (target == "" || target == file) continue
        if (!((file, token) in use)) { used[++pairs] = file SUBSEP token; target_of[file, token] = target }
        use[file, token]++
      }
    }
  }
  for (p = 1; p <= pairs; p++) {
    split(used[p], part, SUBSEP)
    file = part[1]
    from = room[file]
    to = room[target_of[used[p]]]
    number = use[used[p]]
    table[from, to] += number
    if (uses == "--uses" && from != to) print file, part[2], name[to], number
    if (from == to && whole[from]) edge[file, target_of[used[p]]] = 1
    if (to == 0 || from == 0 || to == from) continue
    if (apart[from] && apart[to]) {
      # No exception is made here: what two of them need belongs into a room below both.
      fail(file ": uses " part[2] " of " name[to] ", and " name[from] " and " name[to] " are to keep apart (" number " times)")
      continue
    }
    if (to > from) continue
    entry = file " " part[2]
    if (entry in excepted) { excused[entry] = 1; excuses++; excused_uses += number; continue }
    fail(file ": uses " part[2] " of " name[to] ", which is above " name[from] " (" number " times)")
  }
  for (entry in excepted) {
    if (!(entry in excused)) fail(".ci/rooms-exceptions: \"" entry "\" is not needed any more; take it out")
  }

  # What is left when files that use none of those left are taken away, again and again, holds a circle.
  for (r = 1; r <= rooms; r++) {
    if (!whole[r]) continue
    left = 0
    for (f = 1; f <= file_count; f++) if (room[files[f]] == r) { is_left[files[f]] = 1; left++ }
    do {
      taken = 0
      for (f = 1; f <= file_count; f++) {
        file = files[f]
        if (!is_left[file] || room[file] != r) continue
        goes_on = comes_from = 0
        for (g = 1; g <= file_count; g++) {
          if (g == f || !is_left[files[g]]) continue
          if ((file, files[g]) in edge) goes_on = 1
          if ((files[g], file) in edge) comes_from = 1
        }
        if (!goes_on || !comes_from) { is_left[file] = 0; taken++; left-- }
      }
    } while (taken > 0)
    if (left == 0) continue
    fail(name[r] ": files use each other in a circle:")
    for (f = 1; f <= file_count; f++) {
      if (!is_left[files[f]] || room[files[f]] != r) continue
      for (g = 1; g <= file_count; g++) if (is_left[files[g]] && (files[f], files[g]) in edge) print "  " files[f] " -> " files[g]
    }
  }

  line = "| uses of types |"
  rule = "| --- |"
  for (to = 1; to <= rooms; to++) {
    for (f = 1; f <= file_count && room[files[f]] != to; f++);
    exists[to] = f <= file_count
    if (exists[to]) { line = line " " name[to] " |"; rule = rule " ---: |" }
  }
  print line
  print rule
  for (from = 1; from <= rooms; from++) {
    if (!exists[from]) continue
    line = "| **" name[from] "** |"
    for (to = 1; to <= rooms; to++) if (exists[to]) line = line " " (from == to ? "·" : table[from, to] > 0 ? table[from, to] : "") " |"
    print line
  }
  if (excuses > 0) print "\n" excused_uses " uses point up and are let pass: " excuses " lines of .ci/rooms-exceptions"
  exit failures > 0
}
