import tabulate

print("tabulate", tabulate.__version__)
