# Blocks of drivers; of some of them there is no module.
plugin "docker" {
  config {
    endpoint         = "unix:///run/docker.sock"
    allow_privileged = false
    extra_labels     = ["job_name"]

    auth {
      config = "/srv/nomad/docker.json"
    }
    gc {
      image       = false
      image_delay = "1h"
      dangling_containers {
        enabled = false
      }
    }
    volumes {
      enabled = true
    }
  }
}

plugin "raw_exec" {
  config {
    enabled = true
  }
}

plugin "exec" {
  config {
    no_pivot_root = false
    allow_caps    = ["chown", "net_bind_service"]
  }
}

plugin "java" {
  config {
    default_pid_mode = "private"
  }
}

plugin "qemu" {
  args = ["-debug"]
  config {
    image_paths    = ["/srv/nomad/images"]
    args_allowlist = ["-smp"]
  }
}
