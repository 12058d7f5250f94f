# One machine that is a server and a client.
region     = "eu"
datacenter = "home"
name       = "attic"
data_dir   = "/srv/nomad"
bind_addr  = "0.0.0.0"
log_level  = "INFO"

leave_on_interrupt = true
leave_on_terminate = false

addresses {
  http = "127.0.0.1"
  rpc  = "127.0.0.1"
}

advertise {
  http = "192.0.2.7:4646"
}

ports { http = 4646 rpc = 4647 serf = 4648 }

server {
  enabled          = true
  bootstrap_expect = 1
  retry_join       = []
  encrypt          = ""
  job_gc_threshold = "2h"

  default_scheduler_config {
    scheduler_algorithm             = "spread"
    memory_oversubscription_enabled = true

    preemption_config {
      batch_scheduler_enabled = true
    }
  }
}

client {
  enabled           = true
  network_interface = "eth0"
  cpu_total_compute = 8000

  meta {
    "rack" = "r1"
    zone   = "a"
  }
  chroot_env { "/bin" = "/bin" }

  options = {
    "driver.raw_exec.enable" = "1"
  }
  host_volume "data" {
    path = "/srv"
  }
  artifact {
    http_read_timeout = "10m"
  }
  template {
    disable_file_sandbox = false
  }
}

plugin "raw_exec" {
  args = ["-v"]
  config {
    enabled = true
  }
}
