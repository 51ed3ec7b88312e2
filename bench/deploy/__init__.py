"""A recipe as something that a cluster runs: Kubernetes manifests, a Slurm script, a SkyPilot task.

Everything is rendered from the resolved recipe with the templates of docker/templates. Nothing is sent anywhere.
"""
