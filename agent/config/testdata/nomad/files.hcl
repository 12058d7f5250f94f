# What templates and artifacts may do.
client {
  template {
    function_denylist    = ["plugin", "writeToFile", "env"]
    disable_file_sandbox = false
    max_stale            = "1m"
    block_query_wait     = "30s"

    wait {
      min = "2s"
      max = "30s"
    }
    wait_bounds {
      min = "1s"
      max = "2m"
    }
    consul_retry {
      attempts = 3
    }
    vault_retry {
      backoff = "1s"
    }
    nomad_retry {
      max_backoff = "10s"
    }
  }

  artifact {
    git_timeout                     = "5m"
    decompression_file_count_limit  = 100
    disable_filesystem_isolation    = true
  }
}
