# Greets with the word of a variable, and waits as long as there is none.
#
#   wasmnode var put nomad/jobs/greets word=ahoy
#   wasmnode job run -var programs=$PWD/bin/programs guest-examples/jobs/greets.nomad.hcl

variable "programs" {
  type        = string
  description = "The absolute path of the directory with the example programs."
  default     = "/opt/wasmnode/programs"
}

job "greets" {
  type = "batch"

  group "greets" {
    task "greet" {
      driver = "wasi"

      config {
        module = "${var.programs}/env.wasm"
      }

      template {
        data        = <<-EOF
          {{ with nomadVar "nomad/jobs/greets" }}GREETING={{ .word }}{{ end }}
        EOF
        destination = "secrets/greeting.env"
        env         = true
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
