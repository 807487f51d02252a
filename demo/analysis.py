import pandas as pd
import matplotlib.pyplot as plt

sales = pd.read_csv("/data/input/sales.csv", parse_dates=["date"])
by_month = sales.groupby(sales.date.dt.to_period("M"))["revenue"].sum()
print(f"{len(sales)} rows, {sales.revenue.sum():,.0f} in total; the best month was {by_month.idxmax()}")
print(sales.groupby("region")["revenue"].agg(["count", "mean", "sum"]).round(1))

by_month.plot(kind="bar", color="#2a6f97", title="Revenue by month")
plt.tight_layout()
plt.savefig("revenue.png")
by_month.to_csv("revenue.csv")
