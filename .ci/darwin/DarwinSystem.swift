// Stands in for what Apple's C library offers and others spell otherwise, so that the tool's files for these platforms can be type-checked
// where it is not. See check-darwin. What a module declares goes before what it imports. Nothing here is ever run.

import Foundation

let RLIMIT_NOFILE: Int32 = 8
let RLIMIT_FSIZE: Int32 = 1
func getrlimit(_ resource: Int32, _ limit: UnsafeMutablePointer<rlimit>!) -> Int32 { -1 }

let RUSAGE_SELF: Int32 = 0
@discardableResult func getrusage(_ who: Int32, _ usage: UnsafeMutablePointer<rusage>!) -> Int32 { -1 }

func _NSGetEnviron() -> UnsafeMutablePointer<UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?> { fatalError() }

let SOCK_STREAM: Int32 = 1

struct SignalHandlers {
  var __sa_handler: (@convention(c) (Int32) -> Void)!
}

extension sigaction {
  var __sigaction_u: SignalHandlers { SignalHandlers(__sa_handler: nil) }
}

@discardableResult func pthread_create(
  _ thread: UnsafeMutablePointer<pthread_t?>!, _ attributes: UnsafePointer<pthread_attr_t>?,
  _ main: @convention(c) (UnsafeMutableRawPointer) -> UnsafeMutableRawPointer?, _ context: UnsafeMutableRawPointer?
) -> Int32 { -1 }

let POSIX_SPAWN_CLOEXEC_DEFAULT: Int32 = 0x4000
typealias SpawnActions = UnsafeMutablePointer<posix_spawn_file_actions_t?>
typealias SpawnAttributes = UnsafeMutablePointer<posix_spawnattr_t?>
@discardableResult func posix_spawn_file_actions_init(_ actions: SpawnActions!) -> Int32 { -1 }
@discardableResult func posix_spawn_file_actions_destroy(_ actions: SpawnActions!) -> Int32 { -1 }
@discardableResult func posix_spawn_file_actions_addopen(
  _ actions: SpawnActions!, _ descriptor: Int32, _ path: UnsafePointer<CChar>, _ flags: Int32, _ mode: mode_t
) -> Int32 { -1 }
@discardableResult func posix_spawn_file_actions_adddup2(_ actions: SpawnActions!, _ descriptor: Int32, _ copy: Int32) -> Int32 { -1 }
func posix_spawn_file_actions_addchdir_np(_ actions: SpawnActions!, _ path: UnsafePointer<CChar>) -> Int32 { -1 }
@discardableResult func posix_spawnattr_init(_ attributes: SpawnAttributes!) -> Int32 { -1 }
@discardableResult func posix_spawnattr_destroy(_ attributes: SpawnAttributes!) -> Int32 { -1 }
@discardableResult func posix_spawnattr_setsigmask(_ attributes: SpawnAttributes!, _ signals: UnsafePointer<sigset_t>!) -> Int32 { -1 }
@discardableResult func posix_spawnattr_setsigdefault(_ attributes: SpawnAttributes!, _ signals: UnsafePointer<sigset_t>!) -> Int32 { -1 }
@discardableResult func posix_spawnattr_setflags(_ attributes: SpawnAttributes!, _ flags: Int16) -> Int32 { -1 }
func posix_spawnp(
  _ process: UnsafeMutablePointer<pid_t>!, _ path: UnsafePointer<CChar>!, _ actions: UnsafePointer<posix_spawn_file_actions_t?>!,
  _ attributes: UnsafePointer<posix_spawnattr_t?>!, _ words: UnsafePointer<UnsafeMutablePointer<CChar>?>!,
  _ environment: UnsafePointer<UnsafeMutablePointer<CChar>?>!
) -> Int32 { -1 }
