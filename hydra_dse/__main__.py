"""`python -m hydra_dse`."""

from hydra_dse.cli import main

if __name__ == "__main__":
    main()
