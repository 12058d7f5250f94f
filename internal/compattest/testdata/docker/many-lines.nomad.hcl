job "many-lines" {
  type = "batch"
  group "g" {
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "docker"
      config {
        image   = "busybox:1"
        command = "sh"
        args    = ["-c", "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done | wc -c; seq 1 3000 | tail -2; sleep 1"]
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}
