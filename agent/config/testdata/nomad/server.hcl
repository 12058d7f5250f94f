# What the server keeps, and how it places.
region = "north"

server {
  enabled                 = true
  job_gc_interval         = "2m"
  job_gc_threshold        = "6h"
  eval_gc_threshold       = "90m"
  batch_eval_gc_threshold = "30h"
  deployment_gc_threshold = "3h"
  node_gc_threshold       = "48h"
  csi_volume_claim_gc_threshold = "1h"
  num_schedulers          = 4
  enabled_schedulers      = ["service", "batch"]
  event_buffer_size       = 300
  enable_event_broker     = true
  job_max_priority        = 100
  job_tracked_versions    = 6

  default_scheduler_config {
    scheduler_algorithm             = "spread"
    memory_oversubscription_enabled = true
    reject_job_registration         = false

    preemption_config {
      service_scheduler_enabled = true
    }
  }
  plan_rejection_tracker {
    enabled = true
  }
  search {
    limit_results = 50
  }
}
