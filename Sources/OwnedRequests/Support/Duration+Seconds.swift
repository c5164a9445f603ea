extension Duration {
  /// As a number without an end: a `Duration` that overflows stops the process.
  var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) / 1e18 }
}
