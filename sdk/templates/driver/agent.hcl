# What the operator of a node grants the driver: a part of the agent's configuration.
plugin "@NAME@" {
  grant {
    process {
      commands  = ["/bin/sh"]
      isolation = "none"
    }
  }
}
