# Example: `nomad job init`, with what it has in comments
job "init-whole" {
  region      = "global"
  datacenters = ["*"]

  type = "service"

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  update {
    max_parallel      = 1
    min_healthy_time  = "1s"
    healthy_deadline  = "2m"
    progress_deadline = "4m"
    auto_revert       = false
    canary            = 0
  }

  migrate {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "1s"
    healthy_deadline = "2m"
  }

  ui {
    description = "A **store** of keys"
    link {
      label = "More of it"
      url   = "https://store.example/"
    }
  }

  group "store" {
    count = 1

    network {
      port "keys" {
        to = 6379
      }
    }

    service {
      name     = "init-whole-keys"
      tags     = ["all", "store"]
      port     = "keys"
      provider = "nomad"

      check {
        name     = "answers"
        type     = "tcp"
        interval = "2s"
        timeout  = "1s"
      }
    }

    restart {
      attempts = 1
      interval = "10m"
      delay    = "1s"
      mode     = "fail"
    }

    ephemeral_disk {
      sticky  = true
      migrate = true
      size    = 150
    }

    affinity {
      attribute = "${node.datacenter}"
      value     = "elsewhere"
      weight    = 50
    }

    spread {
      attribute = "${node.datacenter}"
      target "dc1" {
        percent = 70
      }
      target "dc2" {
        percent = 30
      }
    }

    task "server" {
      driver = "docker"

      config {
        image          = "redis:7-serves"
        ports          = ["keys"]
        auth_soft_fail = true
      }

      shutdown_delay = "1s"

      artifact {
        source = "{served}/notes"
        options {
          checksum = "md5:{notes}"
        }
      }

      logs {
        max_files     = 3
        max_file_size = 2
      }

      identity {
        env  = true
        file = true
      }

      resources {
        cpu    = 250
        memory = 64
      }

      template {
        data          = "---\nkey: {{ env \"NOMAD_JOB_NAME\" }}"
        destination   = "local/settings.yml"
        change_mode   = "signal"
        change_signal = "SIGHUP"
      }

      template {
        data        = "KEY={{ env \"NOMAD_TASK_NAME\" }}"
        destination = "local/settings.env"
        env         = true
      }

      kill_timeout = "3s"
    }
  }
}
