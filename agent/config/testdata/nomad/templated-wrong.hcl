# Nothing of this is an address.
bind_addr = "{{ GetNoIP }}"

addresses {
  http = "{{ GetInterfaceIP \"none\" }}"
}

client {
  servers = ["192.0.2.1", "{{ GetAllInterfaces | sort \"age\" }}"]

  host_network "two" {
    interface = "{{ GetAllInterfaces | include \"address\" \"127.0.0.1\" | attr \"name\" }} eth0"
  }
  host_network "open" {
    cidr = "{{ "
  }
}
