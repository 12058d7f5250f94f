# What the plugin does on a node that `wasmnode plugin test` plays: a test is steps in order, and
# what is expected of them.

test "the devices are those of the configuration" {
  configure {
    config {
      devices = ["a", "b"]
    }
  }
  call "device_fingerprint" {
    expect {
      groups = [{ id = { name = "virtual" }, devices = [{ id = "a" }, { id = "b" }] }]
    }
  }
}

test "a task gets the devices that are reserved for it" {
  call "device_reserve" {
    request = {
      group      = { vendor = "example", type = "@NAME@", name = "virtual" }
      device_ids = ["one"]
      user       = { task_name = "task" }
    }
    expect {
      container_edits = { env = ["DEVICE_IDS=one"] }
    }
  }
}

test "a configuration that is wrong is refused" {
  configure {
    config {
      device = ["a"]
    }
    expect {
      error = contains("config.device")
    }
  }
}
