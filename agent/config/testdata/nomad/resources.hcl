# What tasks may have of the machine, and what is kept of those that have ended.
name = "attic-2"

client {
  enabled          = true
  node_class       = "small"
  node_pool        = "attic"
  max_kill_timeout = "45s"
  cpu_total_compute = 3000
  memory_total_mb  = 2048
  network_speed    = 1000

  gc_interval              = "3m"
  gc_max_allocs            = 20
  gc_disk_usage_threshold  = 75
  gc_inode_usage_threshold = 65.5
  gc_parallel_destroys     = 3
  disable_remote_exec      = true

  reserved {
    cpu            = 250
    memory         = 128
    disk           = 512
    reserved_ports = "22,8000-8100"
  }

  options {
    "driver.denylist" = "java,qemu"
    "env.denylist"    = "TOP_SECRET"
    "fingerprint.network.disallow_link_local" = "true"
  }

  drain_on_shutdown {
    deadline = "1m"
  }
  stats {
    collection_interval = "5s"
  }
}
