import OwnedOperations

let session = OwnerLifetime(name: "session")
let upload = OwnerLifetime(name: "upload", parent: session)
session.onEnd { _ in print("session ended") }
upload.onEnd { _ in print("upload ended") }

session.end()

// Prints:
// upload ended
// session ended
