# Addresses are looked up on the machine, as images of machines need it.
bind_addr = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"IPv4\" | attr \"address\" }}"

addresses {
  http = "{{ GetAllInterfaces | include \"name\" \"^lo$\" | include \"type\" \"IPv4\" | join \"address\" \" \" }} 127.0.0.2"
  rpc  = "{{ GetPrivateIP }}"
}

advertise {
  http = "{{ GetInterfaceIP \"lo\" }}"
}

client {
  enabled           = true
  network_interface = "{{ GetPrivateInterfaces | attr \"name\" }}"

  host_network "loop" {
    interface = "{{ GetAllInterfaces | include \"address\" \"127.0.0.1\" | attr \"name\" }}"
  }
}
