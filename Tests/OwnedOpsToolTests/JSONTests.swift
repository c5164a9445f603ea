import Foundation
import Testing

@testable import OwnedOpsTool

/// The reader of JSON: strict, and exact about places.
struct JSONTests {
  private func fault(_ document: String) -> String { fault(Array(document.utf8)) }

  private func fault(_ document: [UInt8]) -> String {
    do throws(JSONFault) {
      _ = try JSONParser.parse(document)
      return ""
    } catch {
      return error.usageError(in: document).description
    }
  }

  /// As text, for comparing.
  private func shown(_ value: JSONValue) -> String {
    switch value.content {
    case .null: "null"
    case .bool(let bool): "\(bool)"
    case .number(let number): "\(number)"
    case .text(let text): "<\(text)>"
    case .list(let values): "[\(values.map(shown).joined(separator: ","))]"
    case .object(let members): "{\(members.map { "\($0.key):\(shown($0.value))" }.joined(separator: ","))}"
    }
  }

  @Test func everythingThatJSONHasIsRead() throws {
    let text =
      "\u{feff} {\"a\" : [ 1 , -0.5e1,0, 1E+2 ],\r\n\t\"é\\u00e9\\ud83d\\ude00\\n\\\"\\/\\\\\":null,\"b\":{},\"c\":[],\"d\":true,\"e\":false } "
    #expect(shown(try JSONParser.parse(Array(text.utf8))) == "{a:[1.0,-5.0,0.0,100.0],éé😀\n\"/\\:null,b:{},c:[],d:true,e:false}")
    #expect(shown(try JSONParser.parse(Array("\"\"".utf8))) == "<>")
    let deep = String(repeating: "[", count: JSONParser.deepest) + String(repeating: "]", count: JSONParser.deepest)
    #expect(fault(deep) == "")
    // One after the other is not one in the other.
    #expect(fault("[" + Array(repeating: "[]", count: 2000).joined(separator: ",") + "]") == "")
  }

  @Test func whatIsWrongIsNamedWithLineAndColumn() {
    let cases: [(String, String)] = [
      ("", "not JSON: there is nothing in it (line 1, column 1)"),
      (" \n ", "not JSON: there is nothing in it (line 2, column 2)"),
      ("[1,\n 2,]", "not JSON: there is a comma before the ]; leave it out (line 2, column 4)"),
      ("{\"a\":1,}", "not JSON: there is a comma before the }; leave it out (line 1, column 8)"),
      ("{\"a\":1,\n\"é\":2,\n  \"a\":3}", "not JSON: the key \"a\" is there twice (line 3, column 3)"),
      ("{\"é\":1 \"b\":2}", "not JSON: a comma or } should be here, not \" (line 1, column 8)"),
      ("[1 2]", "not JSON: a comma or ] should be here, not 2 (line 1, column 4)"),
      ("[,1]", "not JSON: , is not a value (line 1, column 2)"),
      ("{a:1}", "not JSON: a key in quotes should be here, not a (line 1, column 2)"),
      ("{\"a\" 1}", "not JSON: a : should follow the key \"a\", not 1 (line 1, column 6)"),
      ("nul", "not JSON: nul is not a value (line 1, column 1)"),
      ("01", "not JSON: 01 is not a number that JSON has (line 1, column 1)"),
      ("[1.]", "not JSON: 1. is not a number that JSON has (line 1, column 2)"),
      ("1e999", "not JSON: 1e999 is not a number that JSON has (line 1, column 1)"),
      ("\"a", "not JSON: the text that begins here has no end (line 1, column 1)"),
      ("\"a\\x\"", "not JSON: there is no such escape in JSON; a backslash is written \\\\ (line 1, column 3)"),
      ("\"\\ud800\"", "not JSON: half a pair of \\u escapes is no character (line 1, column 2)"),
      ("\"\\u12\"", "not JSON: \\u wants four hexadecimal digits (line 1, column 2)"),
      ("\"\u{1b}\"", "not JSON: there is a control character in a text; write it as \\n, \\t or \\u001b (line 1, column 2)"),
      ("{} {}", "not JSON: there is something after the end of the document: { (line 1, column 4)"),
      ("{\"a\":", "not JSON: it ends where a value should be (line 1, column 6)"),
      ("// no\n{}", "not JSON: // is not a value (line 1, column 1)"),
    ]
    for (document, message) in cases { #expect(fault(document) == message) }
    #expect(fault([0x22, 0x61, 0xff, 0x22]) == "not JSON: there is a text that is not UTF-8 (line 1, column 2)")
    #expect(fault(String(repeating: "[", count: 100_000)).hasSuffix("deeper than 512 levels (line 1, column 513)"))
  }

  @Test func aKeyThatIsThereTwiceIsFoundAmongMany() {
    let keys = (0..<50_000).map { "\"k\($0)\":0" }.joined(separator: ",")
    #expect(fault("{\(keys)}") == "")
    #expect(fault("{\(keys),\n\"k7\":1}") == "not JSON: the key \"k7\" is there twice (line 2, column 1)")
  }

  @Test func errorsOfARunFileNameThePlaceOfWhatIsWrong() {
    let file = """
      { "owners": [ { "name": "o", "maxConcurrent": 0.5 } ],
        "jobs": [ { "name": "a", "command": ["true"], "after": ["a", "b"] } ] }
      """
    func error(_ file: String) -> String {
      do throws(UsageError) {
        _ = try RunFile(Data(file.utf8), source: "f")
        return ""
      } catch {
        return error.description
      }
    }
    #expect(error(file) == "f: owner \"o\": \"maxConcurrent\" is not a whole number (line 1, column 47)")
    let next = file.replacingOccurrences(of: "0.5", with: "5")
    #expect(error(next) == "f: job \"a\": there is no job \"b\" to come after (line 2, column 64)")
    let last = next.replacingOccurrences(of: ", \"b\"", with: "")
    #expect(error(last) == "f: jobs wait for each other in a circle: a -> a (line 2, column 13)")
  }
}
