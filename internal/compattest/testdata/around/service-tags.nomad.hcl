job "service-tags" {
  type = "service"
  update {
    min_healthy_time  = "500ms"
    healthy_deadline  = "4s"
    progress_deadline = "20s"
  }
  group "g" {
    network {
      port "http" {}
    }
    service {
      provider    = "nomad"
      name        = "tagged"
      port        = "http"
      tags        = ["a", "${NOMAD_JOB_NAME}", "${NOMAD_GROUP_NAME}"]
      canary_tags = ["canary"]
    }
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args = ["-c", <<-EOF
          exec sleep 3600
          EOF
        ]
      }
    }
  }
}
