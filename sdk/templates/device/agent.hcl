# The plugin's configuration on a node: a part of the agent's. It needs no grant.
plugin "@NAME@" {
  config {
    devices = ["one", "two", "three"]
  }
}

# The driver of the job.
plugin "raw_exec" {
  grant {
    process {
      commands  = ["/bin/sh"]
      isolation = "none"
    }
  }
}
