import OwnedOperations

let session = OwnerLifetime(name: "session")
let upload = OwnerLifetime(name: "upload", parent: session)
session.onEnd { _ in print("session ended") }
upload.onEnd { _ in print("upload ended") }

upload.end()
print(session.isAlive)

session.end()
print(upload.endReason!)

// Prints:
// upload ended
// true
// session ended
// end() was called
