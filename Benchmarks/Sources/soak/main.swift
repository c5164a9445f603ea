import Foundation

func say(_ text: String) { FileHandle.standardOutput.write(Data(text.utf8)) }

func fail(_ message: String, status: Int32) -> Never {
  FileHandle.standardError.write(Data("soak: \(message)\n".utf8))
  exit(status)
}

let options: Options
do throws(Options.UsageError) {
  options = try Options(Array(CommandLine.arguments.dropFirst()))
} catch {
  fail("\(error); see --help", status: 2)
}
if options.wantsHelp {
  say(Options.help)
  exit(0)
}
exit(SoakRun(options).run() ? 0 : 1)
