"""The resource claim controller: it creates claims from templates, reserves them for pods that bypassed the scheduler, and releases them."""
