import Foundation
import Testing

@testable import OwnedOpsTool

@Suite struct SlurmHeldJobsTests {
  /// Slurm takes jobs that no node of the partition can run, and lets them wait for ever.
  @Test func whatCannotBeginIsToldOnce() throws {
    func rows(_ reasons: [String], _ state: String = "PENDING") throws -> [(job: String, row: SlurmRow)] {
      try reasons.enumerated().map { number, reason in
        (job: "job \(number)", row: try #require(SlurmRow("7_\(number)|\(state)|ownedops:x:0||\(reason)")))
      }
    }
    var held = SlurmHeldJobs()
    let ordinary = ["Resources", "Priority", "Dependency", "None", "ReqNodeNotAvail", "QOSGrpCpuLimit", "JobHeldUser", "BeginTime"]
    #expect(held.obstacleNotice(try rows(ordinary)) == nil)
    #expect(held.obstacleNotice(try rows(["PartitionConfig"], "RUNNING")) == nil)
    let stuck = try rows(["PartitionTimeLimit", "Priority", "QOSMaxCpuPerJobLimit"])
    #expect(
      held.obstacleNotice(stuck)
        == "Slurm can't begin 2 jobs as they are (job 0, job 2): PartitionTimeLimit, QOSMaxCpuPerJobLimit; to change that: scontrol update, "
        + "to end it: scancel 7_0 7_2")
    #expect(held.obstacleNotice(stuck) == nil)
    #expect(held.obstacleNotice(try rows(["Resources"])) == nil)
    #expect(
      held.obstacleNotice(try rows(["BadConstraints"]))
        == "Slurm can't begin 1 job as it is (job 0): BadConstraints; to change that: scontrol update, to end it: scancel 7_0")
    for reason in ["PartitionConfig", "PartitionNodeLimit", "InvalidQOS", "QOSMinCpuNotSatisfied", "AssocMaxMemPerNode"] {
      var fresh = SlurmHeldJobs()
      #expect(fresh.obstacleNotice(try rows([reason])) != nil)
    }
  }

  @Test func whatSomebodyHoldsIsToldOnce() throws {
    func rows(_ standings: [(String, String)]) throws -> [(job: String, row: SlurmRow)] {
      try standings.enumerated().map { number, standing in
        (job: "job \(number)", row: try #require(SlurmRow("7_\(number)|\(standing.0)|ownedops:x:0||\(standing.1)")))
      }
    }
    var held = SlurmHeldJobs()
    #expect(held.notice(try rows([("PENDING", "Priority"), ("RUNNING", "None"), ("PENDING", "JobHeldAdminX")])) == nil)
    let two = try rows([("PENDING", "JobHeldUser"), ("RUNNING", "None"), ("REQUEUE_HOLD", "None")])
    #expect(held.notice(two) == "somebody holds 2 jobs in Slurm (job 0, job 2); to let go: scontrol release 7_0 7_2")
    #expect(held.notice(two) == nil)
    // Let go, and held again.
    #expect(held.notice(try rows([("PENDING", "Resources"), ("RUNNING", "None"), ("REQUEUE_HOLD", "None")])) == nil)
    #expect(held.notice(two) == "somebody holds 1 job in Slurm (job 0); to let go: scontrol release 7_0")
    let many = try rows(Array(repeating: ("PENDING", "JobHeldAdmin"), count: 5))
    let notice = SlurmHeldJobs().told(of: many)
    #expect(notice == "somebody holds 5 jobs in Slurm (job 0, job 1, job 2, ...); to let go: scontrol release 7_0 7_1 7_2 ...")
  }
}

extension SlurmHeldJobs {
  fileprivate func told(of rows: [(job: String, row: SlurmRow)]) -> String? {
    var copy = self
    return copy.notice(rows)
  }
}
