import Foundation
import Testing

@testable import OwnedOpsTool

/// What jobs may say for clusters.
@Suite(.timeLimit(.minutes(1)))
struct ClusterRequestTests {
  private func complaint(_ keys: String) -> String {
    do throws(UsageError) {
      _ = try RunFile(Data("{\"jobs\":[{\"name\":\"a\",\"command\":[\"x\"],\(keys)}]}".utf8), source: "file")
      return ""
    } catch {
      return error.description
    }
  }

  @Test func keysForClustersAreCheckedAndNameTheJob() {
    #expect(complaint(#""gpus":2,"partition":"p","account":"a","constraint":"x&y","slurm":["--qos=high","--exclusive","--time=5"]"#) == "")
    for (keys, text) in [
      (#""gpus":0"#, "\"gpus\" is 0; it must be 1 or more"), (#""gpus":1.5"#, "\"gpus\" is not a whole number"),
      (#""partition":"""#, "\"partition\" is empty"), (#""account":3"#, "\"account\" is not a text"),
      (#""slurm":"--x""#, "\"slurm\" is not a list"), (#""slurm":["-p"]"#, "\"-p\" is no long option of sbatch"),
      (#""slurm":["--array=1-3"]"#, "\"--array\" is not for jobs to give"),
      (#""slurm":["--depend=x"]"#, "\"--dependency\" is not for jobs to give"),
      (#""slurms":[]"#, "unknown key \"slurms\"; did you mean \"slurm\"?"),
    ] {
      #expect(complaint(keys).contains("job \"a\": ") && complaint(keys).contains(text), "\(complaint(keys))")
    }
  }
}
