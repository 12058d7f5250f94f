audit {
  enabled = true
  sink "file" {
    type = "file"
  }
}

sentinel {
  import "numbers" {
    path = "/opt/numbers"
  }
}

keyring "awskms" {
  active = true
}
